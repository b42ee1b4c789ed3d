// Teams of OpenMP threads, in which host devices do their work.
#pragma once

namespace crossbow {

/// From now on the OpenMP teams of the calling thread have exactly so many threads, which start
/// now. oneDNN, which divides its work when a kernel is prepared, would wait for ever in a smaller
/// team.
void set_host_team(int threads);

/// Makes sure that neither the system nor a variable of the environment forbids teams of that size.
/// The calling thread may prepare kernels for them then, but its own team has ended: with more
/// OpenMP threads about than CPUs, libgomp puts those that wait to sleep at once, and a team takes
/// several times as long to meet. Throws Error for the one, UsageError that names the variable for
/// the other.
void expect_host_team(int threads);

}  // namespace crossbow
