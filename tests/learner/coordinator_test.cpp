#include "learner/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/rng.h"

namespace crossbow {
namespace {

/// Says only which rows it was asked for.
class Rows final : public data::BatchSource {
 public:
  const data::Batch& acquire(int64_t) override { return batch_; }
  const data::Batch& acquire_rows(int64_t first, int64_t rows, int) override {
    asked = {first, rows};
    return batch_;
  }
  void release(const data::Batch&) override {}

  std::pair<int64_t, int64_t> asked;

 private:
  data::Batch batch_;
};

struct Script {
  Script(const char* sync, std::vector<WorkerTerms> workers, int64_t batches, int64_t rows = 1,
         int64_t samples = 0)
      : coordinator(make_async(sync, {}), std::move(workers), rows,
                    samples > 0 ? samples : batches * rows) {
    coordinator.begin(source, 0, batches);
  }
  Work next(int node) {
    const auto work = coordinator.next(node);
    EXPECT_TRUE(work);
    return work.value_or(Work{});
  }
  /// The node ends its step and asks for more.
  Work turn(int node) {
    coordinator.done(node);
    return next(node);
  }
  int64_t size(int worker) { return coordinator.state()[static_cast<size_t>(worker)].size; }

  Rows source;
  Coordinator coordinator;
};

/// A live worker of single batches and a replica.
std::vector<WorkerTerms> two_workers() {
  return {{.least = 1, .most = 4, .first = 1}, {.least = 8, .most = 32, .first = 32}};
}

TEST(Coordinator, HandsOutRowsToWhoAsks) {
  Script s("hogbatch", two_workers(), 60);
  EXPECT_EQ(s.next(0), (Work{.first = 0, .count = 1, .size = 1}));
  EXPECT_EQ(s.next(1), (Work{.first = 1, .count = 32, .size = 32}));
  EXPECT_EQ(s.turn(0), (Work{.first = 33, .count = 1, .size = 1}));
  EXPECT_EQ(s.turn(1), (Work{.first = 34, .count = 16, .size = 16}));  // 26 are left
  EXPECT_EQ(s.turn(1), (Work{.first = 50, .count = 8, .size = 8}));
  EXPECT_FALSE(s.coordinator.next(1));  // 2 are left, which the other one can take
  EXPECT_EQ(s.turn(0).first, 58);
  EXPECT_EQ(s.turn(0).first, 59);
  EXPECT_FALSE(s.coordinator.next(0));
  EXPECT_TRUE(s.coordinator.all_handed_out());
  EXPECT_EQ(s.coordinator.state()[1].least, 8);
  EXPECT_EQ(s.coordinator.state()[1].most, 32);
  EXPECT_EQ(s.coordinator.state()[1].repeated, 0);
}

/// The last batch of an epoch has 8 of 32 rows.
TEST(Coordinator, NoStepHasMoreRowsThanTheEpoch) {
  Script s("hogbatch", {{.least = 1, .most = 32, .first = 32}}, 32, 32, 1000);
  int64_t batches = 0;
  while (const auto work = s.coordinator.next(0)) {
    s.coordinator.fetch(*work, 0);
    const auto [first, rows] = s.source.asked;
    EXPECT_GE(first, 0);
    EXPECT_LE(first + rows, 1000);
    batches += work->count;
    s.coordinator.done(0);
  }
  EXPECT_EQ(batches, 32);
}

/// Updates: the live worker's count half.
TEST(Coordinator, AdaptsSizesToWhoIsAhead) {
  auto workers = two_workers();
  workers[0].updates_per_step = 0.5;
  Script s("adaptive-hogbatch", workers, 1000);
  EXPECT_EQ(s.next(0).size, 1);
  EXPECT_EQ(s.next(1).size, 32);
  EXPECT_EQ(s.turn(0).size, 2);   // 0.5 updates beside 0: ahead
  EXPECT_EQ(s.turn(0).size, 4);   // 1 beside 0
  EXPECT_EQ(s.turn(0).size, 4);   // 1.5 beside 0, but 4 is the most
  EXPECT_EQ(s.turn(1).size, 16);  // 1 beside 1.5: behind
  EXPECT_EQ(s.turn(1).size, 32);  // 2 beside 1.5: ahead
  EXPECT_EQ(s.turn(0).size, 4);   // 2 beside 2
  s.coordinator.end_round();
  EXPECT_EQ(s.turn(1).size, 32);  // 1 beside 0, but 32 is the most
  EXPECT_EQ(s.turn(0).size, 2);   // 0.5 beside 1: behind
}

/// A worker of three threads is looked at once for three steps.
TEST(Coordinator, AdaptsOnceForAsManyStepsAsAWorkerHasNodes) {
  Script s("adaptive-hogbatch",
           {{.nodes = 3, .least = 1, .most = 8, .first = 1}, {.least = 1, .most = 8, .first = 8}},
           1000);
  for (int node = 0; node < 4; ++node) s.next(node);
  EXPECT_EQ(s.coordinator.worker_of(2), 0);
  EXPECT_EQ(s.coordinator.worker_of(3), 1);
  EXPECT_EQ(s.turn(0).size, 1);
  EXPECT_EQ(s.turn(0).size, 1);
  EXPECT_EQ(s.turn(2).size, 2);  // 3 updates beside 0
}

TEST(Coordinator, HogbatchKeepsItsSizes) {
  Script s("hogbatch", two_workers(), 1000);
  s.next(0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(s.turn(0).size, 1);
}

/// The one that is twice as fast gets steps twice as large, whichever it is, and no more.
TEST(Coordinator, AdaptiveSgdLooksAtSizesWhenARoundEnds) {
  const WorkerTerms worker{.least = 1, .most = 8, .first = 2};
  for (const int fast : {0, 1}) {
    Script s("adaptive-sgd", {worker, worker}, 1000);
    const auto round = [&](int of_fast, int of_slow, bool whole = true) {
      for (int i = 0; i < of_fast; ++i) s.coordinator.done(fast);
      for (int i = 0; i < of_slow; ++i) s.coordinator.done(1 - fast);
      s.coordinator.end_round(whole);
      return std::pair(s.size(fast), s.size(1 - fast));
    };
    using Sizes = std::pair<int64_t, int64_t>;
    const Sizes unlike = fast == 0 ? Sizes{4, 2} : Sizes{2, 1};  // the first one that differs moves
    EXPECT_EQ(round(4, 2, /*whole=*/false), Sizes(2, 2));
    EXPECT_EQ(round(4, 2), unlike);
    EXPECT_EQ(round(3, 3), unlike);
    EXPECT_EQ(round(4, 3), unlike);
  }
}

TEST(Coordinator, AFailedReplicasStepIsNotInTheModel) {
  Script s("adaptive-sgd", two_workers(), 100);
  const Work lost = s.next(1);
  s.coordinator.give_back(1, lost, {});
  EXPECT_EQ(s.coordinator.state()[1].repeated, 0);
}

TEST(Coordinator, GivesAFailedNodesRowsToOthers) {
  Script s("hogbatch", two_workers(), 33);
  EXPECT_EQ(s.next(0).first, 0);
  const Work lost = s.next(1);
  EXPECT_EQ(lost.count, 32);
  EXPECT_FALSE(s.coordinator.next(0));
  s.coordinator.give_back(1, lost, {});
  EXPECT_TRUE(s.coordinator.left());
  EXPECT_EQ(s.coordinator.first_open(), 1);
  for (int64_t first = 1; first < 33; ++first) {
    EXPECT_EQ(s.turn(0), (Work{.first = first, .count = 1, .size = 1, .second_try = true}));
  }
  EXPECT_FALSE(s.coordinator.left());
  EXPECT_EQ(s.coordinator.state()[1].repeated, 32);
}

/// The smallest step of who is left is 8 batches of 3 rows: rows before the 5 batches that are
/// left fill it up, and the epoch's last batch, of 1 row.
TEST(Coordinator, FillsUpAStepWithRowsBeforeIt) {
  Script s("hogbatch", two_workers(), 37, /*rows=*/3, /*samples=*/36 * 3 + 1);
  const Work lost = s.next(0);
  EXPECT_EQ(s.next(1), (Work{.first = 1, .count = 32, .size = 32}));
  s.coordinator.give_back(0, lost, {});
  EXPECT_EQ(s.turn(1), (Work{.first = 0, .count = 1, .size = 8, .second_try = true}));
  s.coordinator.fetch({.first = 0, .count = 1, .size = 8}, 1);
  EXPECT_EQ(s.source.asked, (std::pair<int64_t, int64_t>(0, 24)));  // there are none before
  const Work rest = s.turn(1);
  EXPECT_EQ(rest, (Work{.first = 33, .count = 4, .size = 8}));
  const Fetched fetched = s.coordinator.fetch(rest, 1);
  EXPECT_EQ(s.source.asked, (std::pair<int64_t, int64_t>(36 * 3 + 1 - 24, 24)));
  EXPECT_EQ(fetched.first, 33);
  EXPECT_EQ(fetched.count, 4);
  EXPECT_EQ(s.coordinator.state()[1].repeated, 7 + 4);
}

TEST(Coordinator, DoesNotCompareWithFailedWorkers) {
  Script s("adaptive-hogbatch",
           {{.least = 1, .most = 8, .first = 4}, {.least = 1, .most = 8, .first = 4}}, 100);
  const Work lost = s.next(0);
  s.next(1);
  for (int i = 0; i < 3; ++i) s.coordinator.done(0);
  s.coordinator.give_back(0, lost, {});
  s.coordinator.done(1);
  EXPECT_EQ(s.size(1), 4);
}

TEST(Coordinator, GoesOnFromItsState) {
  Script s("adaptive-hogbatch", two_workers(), 100), t("adaptive-hogbatch", two_workers(), 100);
  s.next(0);
  s.turn(0);
  const std::vector<int> living{0};
  t.coordinator.restore(s.coordinator.state(), living);
  EXPECT_EQ(t.coordinator.state(), s.coordinator.state());
  EXPECT_EQ(t.turn(0).size, 2);  // alone: the other one has failed
}

/// Workers of random sizes and speeds, some of which fail at any point: nothing hangs, and each
/// batch of each epoch is handed out, and again only if its step has failed.
TEST(Coordinator, RandomRunsHandOutEachBatch) {
  for (uint32_t run = 0; run < 500; ++run) {
    Rng rng(run, Purpose::synthetic);
    std::vector<WorkerTerms> workers;
    const auto number = 1 + rng.below(4);
    for (uint32_t w = 0; w < number; ++w) {
      const int64_t least = w == 0 ? 1 : 1 + rng.below(8);
      const int64_t most = least << rng.below(4);
      workers.push_back(
          {static_cast<int>(1 + rng.below(3)), least, most, rng.below(2) == 0 ? least : most});
    }
    const int64_t batches = 1 + rng.below(300);
    Script s(rng.below(2) == 1 ? "adaptive-hogbatch" : "hogbatch", workers, batches);
    const bool fails = rng.below(2) == 1;
    std::vector<int> living(static_cast<size_t>(std::accumulate(
        workers.begin(), workers.end(), 0, [](int n, const auto& w) { return n + w.nodes; })));
    std::iota(living.begin(), living.end(), 0);
    std::vector<std::optional<Work>> works(living.size());
    for (int epoch = 0; epoch < 3; ++epoch) {
      s.coordinator.begin(s.source, 0, batches);
      std::vector<int> done(static_cast<size_t>(batches));
      std::vector<bool> asks(works.size(), true);
      for (;;) {
        std::vector<int> ready;
        for (const int node : living) {
          if (works[static_cast<size_t>(node)] || asks[static_cast<size_t>(node)])
            ready.push_back(node);
        }
        if (ready.empty()) break;
        const int node = ready[rng.below(static_cast<uint32_t>(ready.size()))];
        const auto at = static_cast<size_t>(node);
        if (fails && works[at] && !works[at]->second_try && living.size() > 1 &&
            rng.below(20) == 0) {
          s.coordinator.give_back(node, *works[at], {});
          works[at].reset();
          std::erase(living, node);
          std::fill(asks.begin(), asks.end(), true);
          continue;
        }
        if (works[at]) {
          ASSERT_GE(works[at]->size, works[at]->count);
          for (int64_t b = 0; b < works[at]->count; ++b) {
            ++done[static_cast<size_t>(works[at]->first + b)];
          }
          s.coordinator.done(node);
        }
        works[at] = s.coordinator.next(node);
        asks[at] = false;
      }
      ASSERT_FALSE(s.coordinator.left()) << "run " << run;
      ASSERT_TRUE(std::ranges::all_of(done, [](int n) { return n == 1; })) << "run " << run;
      s.coordinator.end_round();
    }
  }
}

}  // namespace
}  // namespace crossbow
