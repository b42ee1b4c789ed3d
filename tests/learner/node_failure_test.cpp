// Nodes that fail, and what becomes of their batches.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "learner/async_runner.h"
#include "support/error_text.h"
#include "support/node_states.h"

namespace crossbow::testing {
namespace {

using Clock = AsyncSettings::Clock;

/// What steps do: fail, or take long, at the first tries of some batches.
class Trials {
 public:
  using ByBatch = std::map<int64_t, int>;
  /// How many tries fail, and milliseconds that the first try takes.
  explicit Trials(ByBatch failures, ByBatch stalls = {})
      : failures_(std::move(failures)), stalls_(std::move(stalls)) {}

  void operator()(int64_t, int64_t sample) {
    const int64_t batch = sample / kRows;
    int number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = tries_[batch]++;
    }
    if (const auto at = stalls_.find(batch); at != stalls_.end() && number == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(at->second));
    }
    if (const auto at = failures_.find(batch); at != failures_.end() && number < at->second) {
      fail("no luck with {}", batch);
    }
  }
  int tries(int64_t batch) { return tries_[batch]; }

 private:
  const ByBatch failures_, stalls_;
  std::mutex mutex_;
  ByBatch tries_;
  const WithFaults faults_{std::ref(*this)};
};

AsyncRun faulty(const std::string& sync, int nodes, Clock clock, int workers = 2) {
  AsyncRun run{.sync = sync, .options = {{.learners = nodes}, {}}};
  run.workers = workers;
  run.faulty = true;
  const bool nesterov = find_async(sync)->needs.momentum == SolverNeeds::Momentum::nesterov;
  if (nesterov) run.options.sync.momentum = 0.5;
  run.options.sync.nesterov = nesterov;
  run.settings.clock = clock;
  run.settings.pace = {.spread = 0.3, .slowness = {}};
  return run;
}

/// From now on all that is the node's is NaN.
void poison(AsyncRunner& engine, int node) {
  const auto bytes = engine->snapshot().parameters.size();
  for (const EngineBuffer& buffer : engine->state().buffers) {
    const bool own =
        buffer.kind == EngineBuffer::Kind::weights || buffer.kind == EngineBuffer::Kind::slot;
    if (own && buffer.index == node) std::memset(buffer.data, 0xff, bytes);
  }
}

void expect_finite(const std::vector<float>& values) {
  for (const float value : values) ASSERT_TRUE(std::isfinite(value));
}

TEST(NodeFailures, TheOthersGoOnWithItsBatch) {
  for (const AsyncEntry& entry : async_catalogue()) {
    if (entry.uses.workers) continue;  // unlike ones: hogbatch_test.cpp
    for (const Clock clock : {Clock::real, Clock::virtual_time}) {
      for (const char* device : {"ref", "cpu"}) {
        for (const int64_t bad : {0, 4, 9, 10}) {
          SCOPED_TRACE(fmt::format("{} {} {}", entry.name, device, bad));
          AsyncRun run = faulty(std::string(entry.name), 3, clock, 1 + static_cast<int>(bad % 3));
          run.device = device;
          AsyncRunner engine(run);
          QuadraticData data;
          Trials trials(Trials::ByBatch{{bad, 1}});
          EXPECT_EQ(engine.run(data), kBatches);
          for (int64_t b = 0; b < kBatches; ++b) EXPECT_EQ(trials.tries(b), b == bad ? 2 : 1);
          const auto failures = engine->take_failures();
          ASSERT_EQ(failures.size(), 1u);
          EXPECT_EQ(failures[0].why, fmt::format("no luck with {}", bad));
          EXPECT_EQ(failed_nodes(engine->state().place.nodes), std::set{failures[0].node});
          EXPECT_EQ(rows_learned(engine->state().place.nodes), QuadraticData::kEpochRows);
          if (entry.name != "hogwild") poison(engine, failures[0].node);
          const float first = engine.losses[1];
          for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(engine.run(data), kBatches);
          EXPECT_EQ(rows_learned(engine->state().place.nodes), 4 * QuadraticData::kEpochRows);
          EXPECT_LT(engine.losses[1], first);
          expect_finite(engine.z());
          EXPECT_TRUE(std::isfinite(engine->distance().value_or(0)));
          EXPECT_TRUE(engine->take_turns().empty());
        }
      }
    }
  }
}

/// All but one.
TEST(NodeFailures, OneNodeIsEnough) {
  for (const AsyncEntry& entry : async_catalogue()) {
    if (entry.uses.workers) continue;  // unlike ones: hogbatch_test.cpp
    SCOPED_TRACE(entry.name);
    for (const Clock clock : {Clock::real, Clock::virtual_time}) {
      AsyncRunner engine(faulty(std::string(entry.name), 4, clock));
      QuadraticData data;
      Trials trials(Trials::ByBatch{{1, 1}, {2, 1}, {8, 1}});
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(failed_nodes(engine->state().place.nodes).size(), 3u);
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(rows_learned(engine->state().place.nodes), 2 * QuadraticData::kEpochRows);
      expect_finite(engine.z());
    }
  }
}

TEST(NodeFailures, ABatchThatFailsTwiceAndTheLastNodeEndTheRun) {
  const auto error = [](int nodes, Trials::ByBatch failures) {
    AsyncRunner engine(faulty("gossip-push", nodes, Clock::real));
    QuadraticData data;
    const Trials trials(std::move(failures));
    return error_of([&] { engine.run(data); });
  };
  EXPECT_NE(error(3, {{5, 2}}).find("batch 5 has failed twice"), std::string::npos);
  EXPECT_NE(error(2, {{3, 1}, {9, 1}}).find("the last node has failed"), std::string::npos);
}

TEST(NodeFailures, ABoundOnStalenessDoesNotWaitForThem) {
  for (const Clock clock : {Clock::real, Clock::virtual_time}) {
    AsyncRun run = faulty("async-easgd", 3, clock, 3);
    run.settings.staleness = 0;
    AsyncRunner engine(run);
    QuadraticData data;
    Trials trials(Trials::ByBatch{{1, 1}});
    EXPECT_EQ(engine.run(data), kBatches);
    EXPECT_EQ(rows_learned(engine->state().place.nodes), QuadraticData::kEpochRows);
  }
}

/// Its lease has no end: whoever has nothing to do sleeps meanwhile.
TEST(NodeFailures, TheLastNodesLongStepIsWaitedForAsleep) {
  AsyncRun run = faulty("hogwild", 2, Clock::real, 3);
  run.settings.lease = 0.1;
  AsyncRunner engine(run);
  QuadraticData data;
  Trials trials({}, {{1, 400}, {6, 1600}});
  const std::clock_t before = std::clock();
  EXPECT_EQ(engine.run(data), kBatches);
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.5);
  EXPECT_EQ(trials.tries(1), 2);
  EXPECT_EQ(trials.tries(6), 1);
}

/// One worker cannot notice while the step is under way.
TEST(NodeFailures, AStepThatHasOutlastedItsLeaseIsNotUsed) {
  AsyncRun run = faulty("gossip-push", 3, Clock::real, 1);
  run.settings.lease = 0.2;
  AsyncRunner engine(run);
  QuadraticData data;
  Trials trials({}, {{4, 500}});
  EXPECT_EQ(engine.run(data), kBatches);
  EXPECT_EQ(trials.tries(4), 2);
  const std::vector<NodeState> nodes = engine->state().place.nodes;
  const std::set<int> failed = failed_nodes(nodes);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_GT(nodes[static_cast<size_t>(*failed.begin())].report.busy, 0.5);
  EXPECT_EQ(rows_learned(nodes), QuadraticData::kEpochRows);
}

/// So that nothing of theirs can spoil a mean or a checkpoint.
TEST(NodeFailures, LeaveZeros) {
  for (const AsyncEntry& entry : async_catalogue()) {
    if (entry.uses.workers) continue;  // unlike ones: hogbatch_test.cpp
    SCOPED_TRACE(entry.name);
    AsyncRunner engine(faulty(std::string(entry.name), 3, Clock::real));
    QuadraticData data;
    const Trials trials(Trials::ByBatch{{4, 1}});
    engine.run(data);
    const int node = *failed_nodes(engine->state().place.nodes).begin();
    const auto elements = static_cast<size_t>(engine->layout().parameter_elements);
    const auto expect_zeros = [&](const EngineBuffer& buffer) {
      const auto values = std::span(reinterpret_cast<const float*>(buffer.data), elements);
      EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 0; }));
    };
    const std::vector<EngineBuffer> buffers = engine->state().buffers;
    for (const EngineBuffer& buffer : buffers) {
      const bool own =
          buffer.kind == EngineBuffer::Kind::weights || buffer.kind == EngineBuffer::Kind::slot;
      if (entry.name != "hogwild" && own && buffer.index == node) expect_zeros(buffer);
    }
    // At the end: each node's gradient, or its own weights beside live ones.
    expect_zeros(buffers[buffers.size() - 3 + static_cast<size_t>(node)]);
    expect_finite(engine.z());
  }
}

/// What was on its way to a node comes in, even if nobody is left who could send more.
TEST(NodeFailures, TheLastNodeTakesItsMail) {
  for (const int64_t bad : {2, 3, 4, 5}) {
    AsyncRun run = faulty("gossip-push", 2, Clock::virtual_time, 1);
    run.options.sync.period = 1;
    AsyncRunner engine(run);
    QuadraticData data;
    const Trials trials(Trials::ByBatch{{bad, 1}});
    engine.run(data);
    const std::vector<NodeState> nodes = engine->state().place.nodes;
    const auto failed = static_cast<size_t>(*failed_nodes(nodes).begin());
    EXPECT_EQ(nodes[1 - failed].numbers.inbox.messages, 0);
  }
}

TEST(NodeFailures, AStepThatOutlastsItsLeaseIsNotUsed) {
  for (const char* sync : {"ad-psgd", "downpour", "sgp", "hogwild"}) {
    for (const int64_t late : {2, 10}) {
      SCOPED_TRACE(fmt::format("{} {}", sync, late));
      AsyncRun run = faulty(sync, 3, Clock::real, 3);
      run.settings.lease = 0.2;
      AsyncRunner engine(run);
      QuadraticData data;
      Trials trials({}, {{late, 800}});
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(trials.tries(late), 2);
      const auto failures = engine->take_failures();
      ASSERT_EQ(failures.size(), 1u);
      EXPECT_EQ(failures[0].why, "its step took longer than 0.2 s");
      EXPECT_EQ(rows_learned(engine->state().place.nodes), QuadraticData::kEpochRows);
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(rows_learned(engine->state().place.nodes), 2 * QuadraticData::kEpochRows);
      expect_finite(engine.z());
    }
  }
}

/// A segment that is stopped is a prefix of the epoch, whatever fails meanwhile.
TEST(NodeFailures, AStoppedSegmentHasNoGap) {
  for (const Clock clock : {Clock::real, Clock::virtual_time}) {
    for (int64_t calls = 0; calls < 12; ++calls) {
      AsyncRunner engine(faulty("elastic-gossip", 4, clock, 3));
      QuadraticData data;
      Trials trials(Trials::ByBatch{{3, 1}, {6, 1}});
      std::atomic<int64_t> left{calls};
      Segment segment = engine.segment(data);
      segment.stop = [&] { return left-- <= 0; };
      const int64_t done = engine->run(segment);
      for (int64_t b = 0; b < kBatches; ++b) {
        EXPECT_EQ(trials.tries(b) > 0, b < done) << b << " of " << done;
      }
      EXPECT_EQ(engine->run(engine.segment(data, done, kBatches - done)), kBatches - done);
      EXPECT_EQ(rows_learned(engine->state().place.nodes), QuadraticData::kEpochRows);
    }
  }
}

TEST(NodeFailures, AreKeptByARunThatGoesOn) {
  const AsyncRun run = faulty("gossip-pull", 3, Clock::virtual_time);
  AsyncRunner before(run), after(run);
  QuadraticData data;
  {
    const Trials trials(Trials::ByBatch{{2, 1}});
    before.run(data);
  }
  after->restore(before->snapshot(), before->state().place, [](const auto&) {});
  EXPECT_EQ(failed_nodes(after->state().place.nodes), failed_nodes(before->state().place.nodes));
  EXPECT_EQ(after.run(data), kBatches);
  const int node = *failed_nodes(after->state().place.nodes).begin();
  EXPECT_EQ(after->state().place.nodes[static_cast<size_t>(node)].report.updates,
            before->state().place.nodes[static_cast<size_t>(node)].report.updates);
}

}  // namespace
}  // namespace crossbow::testing
