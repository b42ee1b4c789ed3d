#include "train/interrupt.h"

#include <time.h>

#include <array>
#include <atomic>
#include <csignal>

namespace crossbow {
namespace {

constexpr size_t kStackBytes = 64 << 10;  // a frame with AVX-512's and AMX's registers takes 11 KiB

constexpr std::array kSignals{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
constexpr int64_t kTogether = 200'000'000;  // nanoseconds

std::atomic<int> g_signal{0};
std::atomic<int64_t> g_first{0};  // when it came
static_assert(decltype(g_signal)::is_always_lock_free && decltype(g_first)::is_always_lock_free,
              "a signal handler writes them");

/// In nanoseconds, by a function that a handler may call.
int64_t now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

void handle(int signal) {
  int none = 0;
  if (g_signal.compare_exchange_strong(none, signal)) {
    g_first = now();
    return;
  }
  if (signal == SIGHUP || now() - g_first < kTogether) return;
  std::signal(signal, SIG_DFL);
  raise(signal);  // which comes when this returns
}

/// On the guard's stack, not on that of what it interrupts: some of oneDNN's kernels compute with
/// the stack pointer, and a signal's frame would overwrite whatever lies below it. The handler that
/// was there before.
auto catch_signal(int signal) {
  struct sigaction action = {}, before = {};
  action.sa_handler = handle;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  for (const int other : kSignals) sigaddset(&action.sa_mask, other);
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
