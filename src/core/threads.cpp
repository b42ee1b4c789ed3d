#include "core/threads.h"

#include <chrono>
#include <exception>
#include <filesystem>
#include <latch>
#include <system_error>
#include <vector>

#include "core/error.h"

namespace crossbow {
namespace {

ptrdiff_t threads_of_this_process() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  return error ? 0 : std::distance(begin(tasks), end(tasks));
}

/// A thread that was joined counts against the limit until the kernel has put it away.
void wait_for_threads_to_go(ptrdiff_t wanted) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (threads_of_this_process() > wanted && std::chrono::steady_clock::now() < patience) {
    std::this_thread::yield();
  }
}

}  // namespace

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& e) {
    fail(
        "the system refuses another thread ({}): raise the limits that ulimit -u and ulimit -v "
        "show, or have fewer learners or threads",
        e.code().message());
  }
}

void expect_threads(int count) {
  if (count < 1) return;
  const ptrdiff_t before = threads_of_this_process();
  std::latch counted(1);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  std::exception_ptr error;
  try {
    for (int t = 0; t < count; ++t) {
      threads.push_back(start_thread([&] { counted.wait(); }));
    }
  } catch (...) {
    error = std::current_exception();
  }
  counted.count_down();
  for (std::thread& thread : threads) thread.join();
  wait_for_threads_to_go(before);
  if (error) std::rethrow_exception(error);
}

}  // namespace crossbow
