#include "learner/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/rng.h"
#include "support/error_text.h"
#include "support/text.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_says;
using Kind = WorkOrder::Kind;

/// Sends requests one by one and keeps the orders.
class Script {
 public:
  explicit Script(const CoordinatorOptions& options) : coordinator(options) {}

  std::vector<AddressedOrder> ask(int32_t worker, double loss_sum = 0) {
    std::vector<AddressedOrder> out;
    coordinator.request({worker, loss_sum}, out);
    return out;
  }
  /// The one order that a request brings, for the worker itself.
  WorkOrder order(int32_t worker, double loss_sum = 0) {
    const auto out = ask(worker, loss_sum);
    EXPECT_EQ(out.size(), 1u);
    EXPECT_EQ(out.at(0).worker, worker);
    return out.at(0).order;
  }

  Coordinator coordinator;
};

WorkOrder train(int64_t epoch, int64_t first, int64_t rows, int64_t batch, double lr = 0.1) {
  return {Kind::train, epoch, first, rows, batch, lr};
}

/// A live worker of batch 1, four to an order, and a replica of batch 32.
CoordinatorOptions two_workers() {
  CoordinatorOptions o;
  o.workers = {{.least = 1, .most = 4, .batches_per_order = 4}, {.least = 8, .most = 32}};
  o.first_batches = {1, 32};
  o.lr = 0.1;
  o.rows = 100;
  o.test_rows = 10;
  o.epochs = 2;
  return o;
}

TEST(Coordinator, HandsOutAnEpochThenTheTestRowsThenTheNext) {
  Script s(two_workers());
  EXPECT_EQ(s.order(0), train(0, 0, 4, 1));
  EXPECT_EQ(s.order(1), train(0, 4, 32, 32));
  EXPECT_EQ(s.order(0), train(0, 36, 4, 1));
  EXPECT_EQ(s.order(1), train(0, 40, 32, 32));
  EXPECT_EQ(s.order(0), train(0, 72, 4, 1));
  EXPECT_EQ(s.order(1), train(0, 76, 16, 16));  // 24 are left: cut into rungs
  EXPECT_EQ(s.order(0), train(0, 92, 4, 1));
  EXPECT_TRUE(s.ask(1).empty());  // 4 are left, too few for it
  EXPECT_EQ(s.order(0), train(0, 96, 4, 1));
  EXPECT_EQ(s.order(0), (WorkOrder{Kind::loss, 0, 0, 10, 10, 0}));
  EXPECT_FALSE(s.coordinator.loss());
  EXPECT_EQ(s.coordinator.workers()[0].rows, 20);
  EXPECT_EQ(s.coordinator.workers()[0].batches, 20);
  EXPECT_EQ(s.coordinator.workers()[1].rows, 80);
  EXPECT_EQ(s.coordinator.workers()[1].batches, 3);
  const auto next = s.ask(0, 5);
  EXPECT_EQ(s.coordinator.loss(), 0.5);
  EXPECT_EQ(s.coordinator.epoch(), 1);
  EXPECT_EQ(next, (std::vector<AddressedOrder>{{0, train(1, 0, 4, 1)}, {1, train(1, 4, 32, 32)}}));
}

TEST(Coordinator, StopsAllAfterTheLastEpoch) {
  CoordinatorOptions o = two_workers();
  o.rows = 4;
  o.epochs = 1;
  o.test_rows = 0;
  Script s(o);
  EXPECT_EQ(s.order(0), train(0, 0, 4, 1));
  EXPECT_TRUE(s.ask(1).empty());
  const WorkOrder stop;
  EXPECT_EQ(s.ask(0), (std::vector<AddressedOrder>{{0, stop}, {1, stop}}));
  EXPECT_FALSE(s.coordinator.loss());
}

TEST(Coordinator, StopsWhoAsksOnceItIsToStop) {
  Script s(two_workers());
  s.order(0);
  s.order(1);
  s.coordinator.stop();
  EXPECT_EQ(s.order(0).kind, Kind::stop);
  EXPECT_EQ(s.order(1).kind, Kind::stop);
}

/// Updates: the live worker's count half.
TEST(Coordinator, AdaptsBatchesToWhoIsAhead) {
  CoordinatorOptions o = two_workers();
  o.workers = {{.least = 1, .most = 4, .updates_per_batch = 0.5}, {.least = 8, .most = 32}};
  o.adaptive = true;
  o.rows = 1000;
  Script s(o);
  EXPECT_EQ(s.order(0), train(0, 0, 1, 1));
  EXPECT_EQ(s.order(1), train(0, 1, 32, 32));
  EXPECT_EQ(s.order(0), train(0, 33, 2, 2));    // 0.5 updates beside 0: ahead
  EXPECT_EQ(s.order(0), train(0, 35, 4, 4));    // 1 beside 0
  EXPECT_EQ(s.order(0), train(0, 39, 4, 4));    // 1.5 beside 0, but 4 is the most
  EXPECT_EQ(s.order(1), train(0, 43, 16, 16));  // 1 beside 1.5: behind
  EXPECT_EQ(s.order(1), train(0, 59, 32, 32));  // 2 beside 1.5: ahead
  EXPECT_EQ(s.order(0), train(0, 91, 4, 4));    // 2 beside 2
}

/// Two alike, of 1 to 8 rows.
CoordinatorOptions two_alike(int64_t rows) {
  CoordinatorOptions o = two_workers();
  o.workers = {{.least = 1, .most = 8}, {.least = 1, .most = 8}};
  o.first_batches = {4, 4};
  o.adaptive = true;
  o.rows = rows;
  o.test_rows = 0;
  return o;
}

TEST(Coordinator, LeavesBatchesAsTheyAreWhereNobodyIsAheadAndCountsEachEpochAnew) {
  Script s(two_alike(16));
  EXPECT_EQ(s.order(0), train(0, 0, 4, 4));
  EXPECT_EQ(s.order(1), train(0, 4, 4, 4));
  EXPECT_EQ(s.order(0), train(0, 8, 8, 8));
  EXPECT_TRUE(s.ask(1).empty());
  EXPECT_EQ(s.coordinator.workers()[1].batch, 4);  // 1 beside 1
  EXPECT_EQ(s.ask(0),
            (std::vector<AddressedOrder>{{0, train(1, 0, 8, 8)}, {1, train(1, 8, 4, 4)}}));
  EXPECT_EQ(s.order(1), train(1, 12, 4, 4));
  EXPECT_EQ(s.coordinator.workers()[1].batch, 8);  // 1 beside 0
}

TEST(Coordinator, DoesNotCompareWithFailedWorkers) {
  Script s(two_alike(100));
  for (int i = 0; i < 3; ++i) s.order(0);
  s.order(1);
  std::vector<AddressedOrder> out;
  s.coordinator.fail(0, out);
  s.order(1);
  EXPECT_EQ(s.coordinator.workers()[1].batch, 4);
}

TEST(Coordinator, TheRateFollowsTheBatch) {
  CoordinatorOptions o = two_workers();
  o.lr_batch = 16;
  Script s(o);
  EXPECT_DOUBLE_EQ(s.order(0).lr, 0.1 / 16);
  EXPECT_DOUBLE_EQ(s.order(1).lr, 0.2);
}

TEST(Coordinator, WhatNoSizeDividesIsOneBatch) {
  CoordinatorOptions o = two_workers();
  o.workers = {{.least = 8, .most = 16}, {.least = 16, .most = 32}};
  o.first_batches = {8, 32};
  o.rows = 44;
  EXPECT_EQ(Coordinator::rest(o), 4);
  Script s(o);
  EXPECT_EQ(s.order(1), train(0, 0, 32, 32));
  EXPECT_EQ(s.order(0), train(0, 32, 8, 8));
  EXPECT_TRUE(s.ask(1).empty());
  EXPECT_EQ(s.order(0), train(0, 40, 4, 4));
}

TEST(Coordinator, GivesAFailedWorkersRowsToOthers) {
  CoordinatorOptions o = two_workers();
  o.rows = 36;
  Script s(o);
  EXPECT_EQ(s.order(0), train(0, 0, 4, 1));
  EXPECT_EQ(s.order(1), train(0, 4, 32, 32));
  EXPECT_TRUE(s.ask(0).empty());
  std::vector<AddressedOrder> out;
  s.coordinator.fail(1, out);
  EXPECT_EQ(out, (std::vector<AddressedOrder>{{0, train(0, 4, 4, 1)}}));
  EXPECT_TRUE(s.ask(1).empty());  // too late
  for (int64_t first = 8; first < 36; first += 4) EXPECT_EQ(s.order(0), train(0, first, 4, 1));
  EXPECT_EQ(s.order(0).kind, Kind::loss);
  EXPECT_EQ(s.coordinator.repeated_rows(), 32);
  EXPECT_EQ(s.coordinator.left_out_rows(), 0);
  expect_says(error_of([&] { s.coordinator.fail(0, out); }), "no worker is left");
}

TEST(Coordinator, LeavesOutWhatNobodyLeftCanTake) {
  CoordinatorOptions o = two_workers();
  o.rows = 37;
  Script s(o);
  s.order(0);
  EXPECT_EQ(s.order(1), train(0, 4, 32, 32));
  std::vector<AddressedOrder> out;
  s.coordinator.fail(0, out);
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(s.order(1).kind, Kind::loss);
  EXPECT_EQ(s.coordinator.left_out_rows(), 5);
}

TEST(Coordinator, RefusesSizesThatDoNotFit) {
  const auto refusal = [](std::vector<WorkerTerms> workers, std::vector<int64_t> first,
                          int64_t alpha = 2) {
    CoordinatorOptions o = two_workers();
    o.workers = std::move(workers);
    o.first_batches = std::move(first);
    o.alpha = alpha;
    return error_of([&] { Coordinator{o}; });
  };
  expect_says(refusal({}, {}), "there is no worker");
  expect_says(refusal({{.least = 0, .most = 4}}, {4}), "smallest batch is 0");
  expect_says(refusal({{.least = 1, .most = 4}}, {4}, 1), "alpha 1");
  expect_says(refusal({{.least = 1, .most = 100}}, {1}),
              "batches from 1 grow by a factor of 2: they reach 64 or 128, not 100");
  expect_says(refusal({{.least = 4, .most = 4}, {.least = 6, .most = 6}}, {4, 6}),
              "smallest batch is 6: it must be a multiple of 4, as is 8");
  expect_says(refusal({{.least = 1, .most = 4}}, {3}), "cannot begin with a batch of 3");
  expect_says(refusal({{.least = 1, .most = 4}}, {}), "need as many first batches, not 0");
}

/// Workers of random sizes and speeds, some of which fail at any point: nothing hangs, each row of
/// each epoch is trained on, and only rows that were given back more than once.
TEST(Coordinator, RandomRunsTrainEachRow) {
  for (uint32_t run = 0; run < 500; ++run) {
    Rng rng(run, Purpose::synthetic);
    CoordinatorOptions o;
    const int64_t grain = 1 + rng.below(3);
    const auto workers = 1 + rng.below(4);
    for (uint32_t w = 0; w < workers; ++w) {
      const int64_t least = w == 0 ? grain : grain * (1 + rng.below(8));
      const int64_t most = least << rng.below(4);
      o.workers.push_back({least, most, 1 + rng.below(5), 1});
      o.first_batches.push_back(rng.below(2) == 0 ? least : most);
    }
    o.adaptive = rng.below(2) == 1;
    o.rows = 1 + rng.below(300);
    o.test_rows = rng.below(3) * 10;
    o.loss_rows = 4;
    o.epochs = 3;
    const bool fails = rng.below(2) == 1;
    Coordinator coordinator(o);
    std::vector<std::optional<WorkOrder>> works(workers);
    std::vector<bool> idle(workers, true);
    std::vector<std::vector<int>> seen(3, std::vector<int>(static_cast<size_t>(o.rows)));
    int64_t tested = 0;
    std::vector<AddressedOrder> out;
    size_t left = workers;
    for (uint32_t stopped = 0; stopped < left;) {
      std::vector<int32_t> ready;
      for (uint32_t w = 0; w < workers; ++w) {
        if (works[w] || idle[w]) ready.push_back(static_cast<int32_t>(w));
      }
      ASSERT_FALSE(ready.empty()) << "all wait in run " << run;
      const int32_t w = ready[rng.below(static_cast<uint32_t>(ready.size()))];
      const auto at = static_cast<size_t>(w);
      out.clear();
      if (fails && works[at] && left > 1 && w > 0 && rng.below(20) == 0) {
        works[at].reset();
        --left;
        coordinator.fail(w, out);
      } else {
        if (works[at] && works[at]->kind == Kind::train) {
          ASSERT_EQ(works[at]->rows % works[at]->batch, 0);
          for (int64_t i = 0; i < works[at]->rows; ++i) {
            ++seen[static_cast<size_t>(works[at]->epoch)]
                  [static_cast<size_t>(works[at]->first + i)];
          }
        } else if (works[at]) {
          tested += works[at]->rows;
        }
        idle[at] = false;
        const double sum = works[at] ? static_cast<double>(works[at]->rows) : 0;
        works[at].reset();
        coordinator.request({w, sum}, out);
      }
      for (const auto& [to, order] : out) {
        if (order.kind == Kind::stop) {
          ++stopped;
        } else {
          works[static_cast<size_t>(to)] = order;
        }
      }
    }
    for (const auto& epoch : seen) {
      ASSERT_TRUE(std::ranges::all_of(epoch, [](int n) { return n == 1; })) << run;
    }
    ASSERT_EQ(tested, 3 * o.test_rows);
    if (o.test_rows > 0) {
      ASSERT_EQ(coordinator.loss(), 1) << run;
    }
    ASSERT_EQ(coordinator.left_out_rows(), 0);
  }
}

}  // namespace
}  // namespace crossbow
