// What this process may use of the machine, and has used.
#pragma once

namespace crossbow {

/// Physical cores that the process may run on, at least 1: respects its affinity mask and a
/// container's CPU quota, and counts hyper-threads of a core once.
int physical_cores();

/// Largest resident memory of the process so far, in MiB.
double peak_memory_mb();

}  // namespace crossbow
