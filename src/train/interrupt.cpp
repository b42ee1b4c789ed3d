#include "train/interrupt.h"

#include <atomic>
#include <csignal>

namespace crossbow {
namespace {

std::atomic<bool> g_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

void handle(int) {
  g_requested.store(true, std::memory_order_relaxed);
  // The next one of either kind ends the process, whatever it is busy with.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_requested = false;
  std::signal(SIGINT, handle);
  std::signal(SIGTERM, handle);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::requested() {
  return g_requested.load(std::memory_order_relaxed);
}

}  // namespace crossbow
