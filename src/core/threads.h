// Threads, which the system may refuse.
#pragma once

#include <functional>
#include <thread>

namespace crossbow {

/// Throws Error, which says what to do, where the system allows no more threads.
std::thread start_thread(std::function<void()> body);

/// Throws as start_thread does unless `count` more threads can run at a time: OpenMP's runtime ends
/// the process where it cannot have a thread.
void expect_threads(int count);

}  // namespace crossbow
