#include "learner/thread_plan.h"

#include <gtest/gtest.h>

namespace crossbow {
namespace {

const std::vector<int> kEight{0, 2, 4, 6, 1, 3, 5, 7};  // two NUMA nodes of four cores

TEST(ThreadPlan, SharesOutTheCoresInTheirOrder) {
  const ThreadPlan plan = plan_threads(2, 2, 2, kEight, 8);
  EXPECT_EQ(plan.all_workers(), 4);
  EXPECT_EQ(plan.text(), "4 workers of 2 threads, 2 a device, on CPUs 0,2 | 4,6 | 1,3 | 5,7");
}

TEST(ThreadPlan, HasNoMoreWorkersThanLearnersAndNoMoreThreadsThanCores) {
  EXPECT_EQ(plan_threads(1, 3, 1, kEight, 8).workers, 3);
  EXPECT_EQ(plan_threads(1, 16, 1, kEight, 8).workers, 8);
  EXPECT_EQ(plan_threads(1, 16, 3, kEight, 8).workers, 2);
  EXPECT_EQ(plan_threads(2, 16, 1, kEight, 8).workers, 4);
  EXPECT_EQ(plan_threads(3, 16, 1, kEight, 8).workers, 2);
  EXPECT_EQ(plan_threads(1, 2, 16, kEight, 8).workers,
            1);  // more threads than cores were asked for
}

TEST(ThreadPlan, TiesThreadsDownOnlyWhereItHasTheWholeMachine) {
  EXPECT_FALSE(plan_threads(1, 8, 1, kEight, 8).cpus.empty());
  EXPECT_TRUE(plan_threads(1, 7, 1, kEight, 8).cpus.empty());
  EXPECT_TRUE(plan_threads(1, 4, 1, kEight, 4).cpus.empty());  // a container's quota
  EXPECT_TRUE(plan_threads(1, 1, 16, kEight, 8).cpus.empty());
  EXPECT_EQ(plan_threads(1, 4, 1, kEight, 4).text(), "4 workers of 1 thread");
}

}  // namespace
}  // namespace crossbow
