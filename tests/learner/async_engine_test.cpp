#include "learner/async_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "learner/async_runner.h"
#include "support/error_text.h"
#include "support/node_states.h"

namespace crossbow::testing {
namespace {

using Vector = std::vector<double>;

TEST(AsyncClock, RefusesAnOrderThatEndsTooSoon) {
  AsyncRun run{.sync = "gossip-pull", .options = {{.learners = 2}, {}}};
  run.settings = {.clock = AsyncSettings::Clock::replayed, .replay = {0, 1, 0}};
  AsyncRunner engine(run);
  QuadraticData data;
  EXPECT_NE(error_of([&] { engine.run(data); }).find("ends after 3 turns"), std::string::npos);
}

/// Real and virtual: who is stretched takes fewer steps, and nobody waits for it.
TEST(AsyncClock, AStragglerTakesFewerSteps) {
  for (const auto clock : {AsyncSettings::Clock::virtual_time, AsyncSettings::Clock::real}) {
    AsyncRun run{.sync = "async-easgd", .options = {{.learners = 2}, {}}};
    run.settings = {.clock = clock, .pace = {.spread = 0.1, .slowness = {1, 4}}};
    QuadraticData data;
    data.shortest_delay_us = 2000;
    data.longest_delay_us = 2500;
    AsyncRunner engine(run);
    for (int epoch = 0; epoch < 4; ++epoch) engine.run(data);
    const auto nodes = engine->state().place.nodes;
    EXPECT_EQ(nodes[0].report.updates + nodes[1].report.updates, 4 * kBatches);
    EXPECT_GE(nodes[0].report.updates, 2 * nodes[1].report.updates);
    EXPECT_GE(nodes[1].report.largest_staleness, 3);
    EXPECT_EQ(rows_learned(nodes), 4 * QuadraticData::kEpochRows);
  }
}

/// N = 0 is bulk synchronous; N lets nodes be N steps apart when they begin one.
TEST(AsyncClock, KeepsABoundOnStaleness) {
  for (const auto clock : {AsyncSettings::Clock::virtual_time, AsyncSettings::Clock::real}) {
    for (const int64_t bound : {0, 1, 3}) {
      AsyncRun run{.sync = "downpour", .options = {{.learners = 3}, {}}};
      run.workers = 3;
      run.settings = {.clock = clock, .pace = {.spread = 0.1, .slowness = {1, 2, 8}}};
      run.settings.staleness = bound;
      QuadraticData data;
      data.shortest_delay_us = 300;
      data.longest_delay_us = 500;
      AsyncRunner engine(run);
      EXPECT_EQ(engine.run(data), kBatches);
      const auto nodes = engine->state().place.nodes;
      int64_t least = kBatches, most = 0;
      for (const auto& node : nodes) {
        least = std::min(least, node.report.updates);
        most = std::max(most, node.report.updates);
      }
      EXPECT_LE(most - least, bound + 1) << bound;
    }
  }
}

TEST(AsyncClock, ANodeThatFailsEndsTheRunWithItsMessage) {
  for (const char* sync : {"ad-psgd", "gossip-push", "downpour"}) {
    for (int64_t bad = 0; bad < kBatches; bad += 2) {
      AsyncRun run{.sync = sync, .options = {{.learners = 3}, {}}};
      run.workers = 3;
      run.settings.clock = AsyncSettings::Clock::real;
      QuadraticData data;
      data.bad = bad;
      AsyncRunner engine(run);
      EXPECT_NE(error_of([&] { engine.run(data); }).find("is damaged"), std::string::npos);
    }
  }
}

/// Steps take 1; the second node fails within its fourth, which others take in its place.
TEST(AsyncClock, ANodeFailsWhenThePaceSaysSo) {
  for (const char* sync : {"gossip-pull", "gossip-push", "sgp", "ad-psgd", "downpour", "hogwild"}) {
    SCOPED_TRACE(sync);
    AsyncRun run{.sync = sync, .options = {{.learners = 3}, {}}};
    const double never = std::numeric_limits<double>::infinity();
    run.settings.pace = {.spread = 0, .fails = {never, 3.5}};
    if (std::string(sync) == "gossip-push") run.settings.pace.network = {.latency = 2.25};
    QuadraticData data;
    const auto trained = [&](AsyncRunner& engine) {
      EXPECT_EQ(engine.run(data), kBatches);
      EXPECT_EQ(engine.run(data), kBatches);
      return engine.z();
    };
    AsyncRunner engine(run);
    const std::vector<float> z = trained(engine);
    const auto failures = engine->take_failures();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].node, 1);
    const auto nodes = engine->state().place.nodes;
    EXPECT_TRUE(nodes[1].failed);
    EXPECT_EQ(nodes[1].report.updates, 3);
    EXPECT_EQ(rows_learned(nodes), 2 * QuadraticData::kEpochRows);
    for (const int workers : {1, 3}) {
      run.workers = workers;
      AsyncRunner again(run);
      EXPECT_EQ(trained(again), z) << workers;
    }
  }
}

TEST(AsyncClock, TheLastNodeDoesNotFail) {
  AsyncRun run{.sync = "gossip-pull", .options = {{.learners = 2}, {}}};
  run.settings.pace = {.fails = {0, 0}};
  QuadraticData data;
  AsyncRunner engine(run);
  EXPECT_EQ(engine.run(data), kBatches);
  const auto nodes = engine->state().place.nodes;
  EXPECT_EQ(nodes[0].report.updates + nodes[1].report.updates, kBatches);
  EXPECT_EQ(nodes[0].failed + nodes[1].failed, 1);
}

/// In seconds of the virtual clock, where a step is known to take so many.
TEST(AsyncClock, TellsWhatNodesWaitedForMessages) {
  AsyncRun run{.sync = "gossip-pull", .options = {{.learners = 2}, {}}};
  run.settings.pace = {.spread = 0, .step_seconds = 0.5, .network = NetworkTerms{.latency = 1}};
  QuadraticData data;
  AsyncRunner engine(run);
  engine.run(data);
  const auto nodes = engine->state().place.nodes;
  for (const NodeState& node : nodes) {
    const auto steps = static_cast<double>(node.report.updates);
    EXPECT_DOUBLE_EQ(node.report.busy, 0.5 * steps);
    EXPECT_DOUBLE_EQ(node.report.busy + node.report.waiting, 0.5 * node.time);
    EXPECT_EQ(node.numbers.sent, node.report.updates);
  }
  const NodeReport &one = nodes[0].report, &other = nodes[1].report;
  const NodeReport& busier = one.updates > other.updates ? one : other;
  EXPECT_DOUBLE_EQ(busier.waiting, static_cast<double>(busier.updates));  // there and back
}

/// Without gradients, whatever is under way.
TEST(AsyncMass, IsConserved) {
  for (const char* sync : {"elastic-gossip", "sgp", "ad-psgd", "async-easgd"}) {
    SCOPED_TRACE(sync);
    AsyncRun run{.sync = sync, .options = {{.learners = 5}, {}}};
    AsyncRunner engine(run);
    QuadraticData data;
    engine.run(data);  // so that the nodes differ
    const auto total = [&] {
      Vector sum(static_cast<size_t>(kInputs));
      double mass = 0;
      const auto states = engine->state().place.nodes;
      const auto buffers = engine->state().buffers;
      for (int j = 0; j < run.nodes(); ++j) {
        const auto w = engine.weights(j);
        const auto& numbers = states[static_cast<size_t>(j)].numbers;
        for (size_t i = 0; i < w.size(); ++i) sum[i] += numbers.mass * static_cast<double>(w[i]);
        mass += numbers.mass + numbers.inbox.mass;
      }
      size_t j = 0;
      for (const EngineBuffer& buffer : buffers) {
        if (buffer.kind != EngineBuffer::Kind::central) continue;
        const auto* const values = reinterpret_cast<const float*>(buffer.data);
        const bool server = run.sync == "async-easgd" && buffer.index == 0;
        const bool inbox = (run.sync == "elastic-gossip" || run.sync == "sgp") && j < 5 &&
                           states[j].numbers.inbox.messages > 0;
        for (size_t i = 0; (server || inbox) && i < sum.size(); ++i) {
          sum[i] += static_cast<double>(values[i]);
        }
        ++j;
      }
      sum.push_back(mass);
      return sum;
    };
    const Vector before = total();
    engine.rate = [](int64_t) { return 0.0; };
    for (int64_t stop = 1; stop < kBatches; ++stop) {
      std::atomic<int64_t> asked{0};
      Segment segment = engine.segment(data, stop - 1, 1);
      engine->run(segment);
      const Vector now = total();
      for (size_t i = 0; i < now.size(); ++i) ASSERT_NEAR(now[i], before[i], 1e-5) << stop;
    }
  }
}

}  // namespace
}  // namespace crossbow::testing
