// Ranks over MPI 3.
#pragma once

#include <memory>
#include <string>

#include "comm/world.h"

namespace crossbow {

/// One thread makes all calls of MPI (MPI_THREAD_FUNNELED), one task after the other, and naps
/// while it waits. A sum over ranks is an exchange of shares, whose order of addition is ours,
/// since MPI promises equal bits on no two ranks, and a gathering of the sums.
///
/// The last `spares` processes are spares. Throws Error if there is no MPI, or if it knows of this
/// process alone, and UsageError if there is no use for the spares.
std::unique_ptr<World> join_mpi(int spares);

/// "Open MPI v4.1.4", or "none".
std::string mpi_version();

}  // namespace crossbow
