#include "train/interrupt.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace crossbow
