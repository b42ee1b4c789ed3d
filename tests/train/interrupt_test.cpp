#include "train/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace crossbow {
namespace {

/// The stack that this thread's handlers run on.
stack_t handlers_stack() {
  stack_t stack = {};
  sigaltstack(nullptr, &stack);
  return stack;
}

/// Kernels may use the stack pointer for something else.
TEST(Interrupt, HandlersLeaveTheStackAlone) {
  std::signal(SIGHUP, SIG_DFL);  // which nohup has ignored
  const stack_t before = handlers_stack();
  {
    const InterruptGuard guard;
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
      struct sigaction action = {};
      sigaction(signal, nullptr, &action);
      EXPECT_TRUE(action.sa_flags & SA_ONSTACK) << signal;
    }
    EXPECT_NE(handlers_stack().ss_sp, before.ss_sp);
    EXPECT_FALSE(handlers_stack().ss_flags & SS_DISABLE);
    raise(SIGHUP);
    EXPECT_EQ(InterruptGuard::signal(), SIGHUP);
  }
  EXPECT_EQ(handlers_stack().ss_flags, before.ss_flags);
}

/// Exits with the first of two signals, if the second lets it.
[[noreturn]] void raise_two(int first, int second, std::chrono::milliseconds between) {
  const InterruptGuard guard;
  raise(first);
  std::this_thread::sleep_for(between);
  raise(second);
  std::_Exit(InterruptGuard::signal());
}

TEST(Interrupt, ASecondSignalEndsTheProcessButNotAtOnce) {
  using std::chrono::milliseconds;
  using ::testing::ExitedWithCode;
  using ::testing::KilledBySignal;
  EXPECT_EXIT(raise_two(SIGTERM, SIGTERM, milliseconds(0)), ExitedWithCode(SIGTERM), "");
  EXPECT_EXIT(raise_two(SIGUSR1, SIGINT, milliseconds(0)), ExitedWithCode(SIGUSR1), "");
  EXPECT_EXIT(raise_two(SIGTERM, SIGTERM, milliseconds(250)), KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(raise_two(SIGTERM, SIGINT, milliseconds(250)), KilledBySignal(SIGINT), "");
  EXPECT_EXIT(raise_two(SIGINT, SIGHUP, milliseconds(250)), ExitedWithCode(SIGINT), "");
}

}  // namespace
}  // namespace crossbow
