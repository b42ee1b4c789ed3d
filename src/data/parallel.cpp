#include "data/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/machine.h"
#include "data/dataset.h"

namespace crossbow::data {
namespace {

struct Loop {
  Loop(int64_t n, const std::function<void(int64_t)>& body)
      : n(n), chunk(std::clamp<int64_t>(n / 256, 1, 64)), body(body) {}

  /// Runs one chunk; false when none is left.
  bool step() {
    const int64_t begin = next.fetch_add(chunk);
    if (begin >= n) return false;
    const int64_t end = std::min(begin + chunk, n);
    int64_t i = begin;
    try {
      for (; i < end; ++i) body(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error || i < error_at) {
        error = std::current_exception();
        error_at = i;
      }
      next = n;
    }
    done += end - begin;
    return true;
  }

  const int64_t n, chunk;
  const std::function<void(int64_t)>& body;
  std::atomic<int64_t> next = 0, done = 0;
  std::mutex mutex;
  std::exception_ptr error;
  int64_t error_at = 0;
};

/// Leaves nothing to take, when it goes out of scope.
struct EndLoop {
  Loop& loop;
  ~EndLoop() { loop.next = loop.n; }
};

}  // namespace

void parallel_for(int64_t n, const OpenOptions& options, std::string_view what,
                  const std::function<void(int64_t)>& body) {
  Loop loop(n, body);
  const int64_t wanted = options.threads > 0 ? options.threads : usable_cpus();
  const int64_t helpers = std::min(wanted, (n + loop.chunk - 1) / loop.chunk) - 1;
  {
    std::vector<std::jthread> threads;
    // Whatever is thrown, the helpers have no more to do.
    const EndLoop end{loop};
    try {
      for (int64_t t = 0; t < helpers; ++t) {
        threads.emplace_back([&] {
          while (loop.step()) {
          }
        });
      }
    } catch (const std::system_error&) {
      // The system allows no more of them: it takes longer.
    }
    while (loop.step()) {
      if (options.progress) options.progress(what, loop.done, n);
    }
  }
  if (loop.error) std::rethrow_exception(loop.error);
  if (options.progress) options.progress(what, n, n);
}

}  // namespace crossbow::data
