#include "train/interrupt.h"

#include <atomic>
#include <csignal>

namespace crossbow {
namespace {

constexpr size_t kStackBytes = 64 << 10;  // a frame with AVX-512's and AMX's registers takes 11 KiB

std::atomic<int> g_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

void handle(int signal) {
  int none = 0;
  g_signal.compare_exchange_strong(none, signal, std::memory_order_relaxed);
  // The next one of either kind ends the process, whatever it is busy with.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
}

/// On the guard's stack, not on that of what it interrupts: some of oneDNN's kernels compute with
/// the stack pointer, and a signal's frame would overwrite whatever lies below it. The handler that
/// was there before.
auto catch_signal(int signal) {
  struct sigaction action = {}, before = {};
  action.sa_handler = handle;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(signal, &action, &before);
  return before.sa_handler;
}

}  // namespace

InterruptGuard::InterruptGuard() : stack_(kStackBytes) {
  g_signal = 0;
  stack_t stack = {};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  sigaltstack(&stack, &stack_before_);
  catch_signal(SIGINT);
  catch_signal(SIGTERM);
  catch_signal(SIGUSR1);
  if (catch_signal(SIGHUP) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  sigaltstack(&stack_before_, nullptr);
}

int InterruptGuard::signal() {
  return g_signal.load(std::memory_order_relaxed);
}

}  // namespace crossbow
