// Threads, which the system may refuse, and OpenMP teams, which the environment may.
#pragma once

#include <functional>
#include <thread>

namespace crossbow {

/// Throws Error, which says what to do, where the system allows no more threads.
std::thread start_thread(std::function<void()> body);

/// Throws as start_thread does unless `count` more threads can run at a time: OpenMP's runtime ends
/// the process where it cannot have a thread.
void expect_threads(int count);

/// From now on the OpenMP teams of the calling thread have exactly so many threads. oneDNN, which
/// divides its work when a kernel is prepared, would wait for ever in a smaller team.
void set_team(int threads);

/// set_team, after making sure that neither the system nor a variable of the environment forbids
/// it. Throws Error for the one, UsageError that names the variable for the other.
void expect_team(int threads);

}  // namespace crossbow
