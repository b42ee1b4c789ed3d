// Nodes that fail, and what becomes of their batches.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "learner/async_runner.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

using Clock = AsyncSettings::Clock;

/// What steps do: fail, or take long, at the first tries of some batches.
class Trials {
 public:
  std::map<int64_t, int> failures;  // by batch: how many tries fail
  std::map<int64_t, int> stalls;    // by batch: milliseconds of the first try

  void operator()(int64_t, int64_t sample) {
    const int64_t batch = sample / kRows;
    int number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = tries_[batch]++;
    }
    if (const auto at = stalls.find(batch); at != stalls.end() && number == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(at->second));
    }
    if (const auto at = failures.find(batch); at != failures.end() && number < at->second) {
      fail("no luck with {}", batch);
    }
  }
  int tries(int64_t batch) { return tries_[batch]; }

 private:
  std::mutex mutex_;
  std::map<int64_t, int> tries_;
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

/// Nodes that have failed.
std::set<int> failed(AsyncRunner& engine) {
  std::set<int> all;
  const auto nodes = engine->place().nodes;
  for (size_t j = 0; j < nodes.size(); ++j) {
    if (nodes[j].failed) all.insert(static_cast<int>(j));
  }
  return all;
}

int64_t rows_learned(AsyncRunner& engine) {
  int64_t rows = 0;
  for (const NodeState& node : engine->place().nodes) rows += node.report.rows;
  return rows;
}

int64_t epoch_rows() {
  int64_t rows = 0;
  for (int64_t b = 0; b < kBatches; ++b) rows += QuadraticData::rows(b);
  return rows;
}

/// From now on all that is the node's is NaN.
void poison(AsyncRunner& engine, int node) {
  const auto bytes = engine->snapshot().parameters.size();
  for (const EngineBuffer& buffer : engine->buffers()) {
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
    for (const Clock clock : {Clock::real, Clock::virtual_time}) {
      for (const char* device : {"ref", "cpu"}) {
        for (const int64_t bad : {0, 4, 9, 10}) {
          SCOPED_TRACE(fmt::format("{} {} {}", entry.name, device, bad));
          AsyncRun run = faulty(std::string(entry.name), 3, clock, 1 + static_cast<int>(bad % 3));
          run.device = device;
          AsyncRunner engine(run);
          QuadraticData data;
          Trials trials;
          trials.failures = {{bad, 1}};
          const WithFaults faults(std::ref(trials));
          EXPECT_EQ(engine.run(data), kBatches);
          for (int64_t b = 0; b < kBatches; ++b) EXPECT_EQ(trials.tries(b), b == bad ? 2 : 1);
          const auto failures = engine->take_failures();
          ASSERT_EQ(failures.size(), 1u);
          EXPECT_EQ(failures[0].why, fmt::format("no luck with {}", bad));
          EXPECT_EQ(failed(engine), std::set{failures[0].node});
          EXPECT_EQ(rows_learned(engine), epoch_rows());
          if (entry.name != "hogwild") poison(engine, failures[0].node);
          const float first = engine.losses[1];
          for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(engine.run(data), kBatches);
          EXPECT_EQ(rows_learned(engine), 4 * epoch_rows());
          EXPECT_LT(engine.losses[1], first);
          expect_finite(engine.z());
          if (const auto distance = engine->distance()) EXPECT_TRUE(std::isfinite(*distance));
          EXPECT_TRUE(engine->take_turns().empty());
        }
      }
    }
  }
}

/// All but one.
TEST(NodeFailures, OneNodeIsEnough) {
  for (const AsyncEntry& entry : async_catalogue()) {
    SCOPED_TRACE(entry.name);
    for (const Clock clock : {Clock::real, Clock::virtual_time}) {
      AsyncRunner engine(faulty(std::string(entry.name), 4, clock));
      QuadraticData data;
      Trials trials;
      trials.failures = {{1, 1}, {2, 1}, {8, 1}};
      const WithFaults faults(std::ref(trials));
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(failed(engine).size(), 3u);
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(rows_learned(engine), 2 * epoch_rows());
      expect_finite(engine.z());
    }
  }
}

TEST(NodeFailures, ABatchThatFailsTwiceAndTheLastNodeEndTheRun) {
  const auto error = [](int nodes, std::map<int64_t, int> failures) {
    AsyncRunner engine(faulty("gossip-push", nodes, Clock::real));
    QuadraticData data;
    Trials trials;
    trials.failures = std::move(failures);
    const WithFaults faults(std::ref(trials));
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
    Trials trials;
    trials.failures = {{1, 1}};
    const WithFaults faults(std::ref(trials));
    EXPECT_EQ(engine.run(data), kBatches);
    EXPECT_EQ(rows_learned(engine), epoch_rows());
  }
}

TEST(NodeFailures, AStepThatOutlastsItsLeaseIsNotUsed) {
  for (const char* sync : {"ad-psgd", "downpour", "sgp", "hogwild"}) {
    for (const int64_t late : {2, 10}) {
      SCOPED_TRACE(fmt::format("{} {}", sync, late));
      AsyncRun run = faulty(sync, 3, Clock::real, 3);
      run.settings.lease = 0.05;
      AsyncRunner engine(run);
      QuadraticData data;
      Trials trials;
      trials.stalls = {{late, 400}};
      const WithFaults faults(std::ref(trials));
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(trials.tries(late), 2);
      const auto failures = engine->take_failures();
      ASSERT_EQ(failures.size(), 1u);
      EXPECT_EQ(failures[0].why, "its step took longer than 0.05 s");
      EXPECT_EQ(rows_learned(engine), epoch_rows());
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(rows_learned(engine), 2 * epoch_rows());
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
      Trials trials;
      trials.failures = {{3, 1}, {6, 1}};
      const WithFaults faults(std::ref(trials));
      std::atomic<int64_t> left{calls};
      Segment segment = engine.segment(data);
      segment.stop = [&] { return left-- <= 0; };
      const int64_t done = engine->run(segment);
      for (int64_t b = 0; b < kBatches; ++b) {
        EXPECT_EQ(trials.tries(b) > 0, b < done) << b << " of " << done;
      }
      EXPECT_EQ(engine->run(engine.segment(data, done, kBatches - done)), kBatches - done);
      EXPECT_EQ(rows_learned(engine), epoch_rows());
    }
  }
}

TEST(NodeFailures, AreKeptByARunThatGoesOn) {
  const AsyncRun run = faulty("gossip-pull", 3, Clock::virtual_time);
  AsyncRunner before(run), after(run);
  QuadraticData data;
  Trials trials;
  trials.failures = {{2, 1}};
  {
    const WithFaults faults(std::ref(trials));
    before.run(data);
  }
  after->resume(before->place());
  EXPECT_EQ(failed(after), failed(before));
  EXPECT_EQ(after.run(data), kBatches);
  const int node = *failed(after).begin();
  EXPECT_EQ(after->place().nodes[static_cast<size_t>(node)].report.updates,
            before->place().nodes[static_cast<size_t>(node)].report.updates);
}

}  // namespace
}  // namespace crossbow::testing
