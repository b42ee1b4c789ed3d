// What this process may use of the machine, and has used.
#pragma once

#include <vector>

namespace crossbow {

/// One CPU (the operating system's number) of each physical core that the process may run on, so
/// that hyper-threads of a core count once. Neighbours share caches and NUMA nodes. Not empty.
const std::vector<int>& core_cpus();

/// This process is one of `processes` on this machine, each of which takes as large a part of the
/// CPU quota and of the memory from now on, and one of `alike` that may use the same CPUs, of whose
/// cores it takes one part. To be called before all else here, by the thread that makes the others.
void share_machine(int place, int alike, int processes);

/// How many cores' worth of time the process may use, at least 1: the above, or fewer where a
/// container's CPU quota is smaller.
int physical_cores();
/// The same with each of a core's hyper-threads: how many threads may run at a time.
int usable_cpus();

/// Memory that the process may use, in MiB: the machine's, or less where its control groups,
/// `ulimit -v` or `ulimit -d` say so.
double memory_mb();
/// What of that it has not taken yet, in MiB.
double free_memory_mb();

/// Throws Error unless that much more memory can be had now: for what would crash where it gets
/// none.
void expect_memory(double mib);

/// Largest resident memory of the process so far, in MiB.
double peak_memory_mb();

}  // namespace crossbow
