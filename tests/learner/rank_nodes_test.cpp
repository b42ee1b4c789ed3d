// Asynchronous nodes of several ranks, which are threads here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "comm/thread_world.h"
#include "learner/async_runner.h"
#include "support/error_text.h"
#include "support/node_states.h"

namespace crossbow::testing {
namespace {

using Vector = std::vector<double>;

struct Ranks {
  std::string_view sync;
  int ranks, nodes;  // of each
  int all() const { return ranks * nodes; }
};

/// Of all ranks, between segments.
struct Place {
  std::vector<Vector> weights;    // by node
  std::vector<Vector> inboxes;    // by node; empty if nothing waits there
  std::vector<Vector> evaluated;  // by rank
  std::vector<NodeState> nodes;

  /// With what waits in inboxes, each weighted by its mass.
  Vector sum(bool with_server) const {
    Vector sum = with_server ? evaluated[0] : Vector(kInputs);
    for (size_t j = 0; j < weights.size(); ++j) {
      for (size_t i = 0; i < kInputs; ++i) {
        sum[i] += nodes[j].numbers.mass * weights[j][i];
        if (!inboxes[j].empty()) sum[i] += inboxes[j][i];
      }
    }
    return sum;
  }
  double mass() const {
    double mass = 0;
    for (const NodeState& n : nodes) mass += n.numbers.mass + n.numbers.inbox.mass;
    return mass;
  }
  /// Between any two nodes, of any weight.
  double spread() const {
    double spread = 0;
    for (size_t i = 0; i < kInputs; ++i) {
      const auto [least, most] =
          std::ranges::minmax(weights, {}, [&](const Vector& w) { return w[i]; });
      spread = std::max(spread, most[i] - least[i]);
    }
    return spread;
  }
};

using Bytes = std::vector<std::byte>;

std::vector<Bytes> contents(const std::vector<EngineBuffer>& buffers, size_t bytes) {
  std::vector<Bytes> all;
  for (const EngineBuffer& b : buffers) {
    all.emplace_back(b.data, b.data + (b.kind == EngineBuffer::Kind::states ? 0 : bytes));
  }
  return all;
}

struct Repeated {
  std::vector<std::vector<Bytes>> buffers;   // by rank
  std::vector<std::vector<int32_t>> orders;  // by rank
};

class RankNodes : public ::testing::TestWithParam<Ranks> {
 protected:
  static AsyncRun run_of(World& world) {
    const Ranks& c = GetParam();
    AsyncRun run{.sync = std::string(c.sync), .options = {{.learners = c.all()}, {}}};
    run.settings = {.clock = AsyncSettings::Clock::real};
    run.workers = c.nodes;
    run.world = &world;
    run.options.sync.nesterov = c.sync == "async-eamsgd";
    run.options.sync.momentum = run.options.sync.nesterov ? 0.9 : 0;
    return run;
  }
  /// So many epochs, each in two segments, with and then without steps that change anything:
  /// where the nodes are after both.
  static std::pair<Place, Place> train(int epochs, int idle_epochs) {
    const Ranks& c = GetParam();
    std::array<Place, 2> places;
    for (Place& p : places) {
      p.weights.resize(static_cast<size_t>(c.all()));
      p.inboxes.resize(static_cast<size_t>(c.all()));
      p.evaluated.resize(static_cast<size_t>(c.ranks));
    }
    ThreadWorlds(c.ranks).run([&](World& world) {
      QuadraticData data;
      data.seed = static_cast<uint64_t>(world.rank());
      data.longest_delay_us = 300;
      AsyncRunner engine(run_of(world));
      for (Place& place : places) {
        const bool idle = &place == &places[1];
        if (idle) engine.rate = [](int64_t) { return 0.0; };
        for (int e = 0; e < (idle ? idle_epochs : epochs); ++e) {
          EXPECT_EQ(engine->run(engine.segment(data, 0, 7)), 7);
          EXPECT_EQ(engine->run(engine.segment(data, 7, kBatches - 7)), kBatches - 7);
        }
        look(engine, world.rank(), place);
      }
    });
    return {places[0], places[1]};
  }
  /// Two epochs, the second in two segments, of steps that take as long as they do by chance; or
  /// the same again.
  static Repeated run(const Repeated* before, uint64_t chance) {
    const int ranks = GetParam().ranks;
    Repeated result{std::vector<std::vector<Bytes>>(static_cast<size_t>(ranks)),
                    std::vector<std::vector<int32_t>>(static_cast<size_t>(ranks))};
    ThreadWorlds(ranks).run([&](World& world) {
      const auto r = static_cast<size_t>(world.rank());
      QuadraticData data;
      data.seed = chance + r;
      data.longest_delay_us = 400;
      AsyncRun own = run_of(world);
      if (before) {
        own.settings = {.clock = AsyncSettings::Clock::replayed, .replay = before->orders[r]};
      }
      AsyncRunner engine(own);
      engine->run(engine.segment(data));
      engine->run(engine.segment(data, 0, 7));
      engine->run(engine.segment(data, 7, kBatches - 7));
      result.buffers[r] = contents(engine->state().buffers, engine->snapshot().parameters.size());
      result.orders[r] = engine->take_turns();
    });
    return result;
  }

 private:
  static void look(AsyncRunner& engine, int rank, Place& place) {
    const auto vector = [](const std::vector<float>& v) { return Vector(v.begin(), v.end()); };
    const auto here = static_cast<size_t>(GetParam().nodes),
               first = static_cast<size_t>(rank) * here;
    place.evaluated[static_cast<size_t>(rank)] = vector(engine.z());
    const std::vector<NodeState> nodes = engine->state().place.nodes;
    if (rank == 0) place.nodes = nodes;
    for (size_t j = 0; j < here; ++j) {
      place.weights[first + j] = vector(engine.weights(static_cast<int>(j)));
    }
    for (const EngineBuffer& b : engine->state().buffers) {  // inboxes come first
      const auto at = static_cast<size_t>(b.index) % (2 * here);
      if (b.kind != EngineBuffer::Kind::central || at >= here) continue;
      if (nodes[first + at].numbers.inbox.messages == 0) continue;
      place.inboxes[first + at] = vector(weights_at(engine->layout(), find_device("ref"), b.data));
    }
  }
};

double loss_at(const Vector& w) {
  const QuadraticData data;
  double sum = 0;
  for (int64_t b = 0; b < kBatches; ++b) {
    double loss = 0;
    data.gradient(b, w, 0, loss);
    sum += loss;
  }
  return sum;
}

TEST_P(RankNodes, TrainEachBatchOnceAndEvaluateOneModel) {
  constexpr int kEpochs = 24;
  const Place end = train(kEpochs, 0).first;
  ASSERT_EQ(std::ssize(end.nodes), GetParam().all());
  EXPECT_EQ(rows_learned(end.nodes), kEpochs * QuadraticData::kEpochRows);
  for (const Vector& z : end.evaluated) EXPECT_EQ(z, end.evaluated[0]);
  Vector first(kInputs);
  for (int64_t i = 0; i < kInputs; ++i) first[static_cast<size_t>(i)] = first_weight(i);
  EXPECT_LT(loss_at(end.evaluated[0]), 0.85 * loss_at(first));
}

/// Once no step changes anything, nodes come nearer to each other, and what an algorithm conserves
/// stays: with messages lost or taken twice it would not.
TEST_P(RankNodes, ConserveWhatTheyExchange) {
  const std::string_view sync = GetParam().sync;
  const auto [before, after] = train(2, 20);
  EXPECT_LE(after.spread(), 0.5 * before.spread() + 1e-6);
  if (sync == "sgp") {
    EXPECT_NEAR(after.mass(), GetParam().all(), 1e-12);  // halves of halves round when added
  }
  const bool server = sync == "async-easgd", pairs = sync == "ad-psgd";
  if (!server && !pairs && sync != "sgp") return;
  const Vector sum = before.sum(server), later = after.sum(server);
  for (size_t i = 0; i < kInputs; ++i) ASSERT_NEAR(later[i], sum[i], 1e-5) << i;
}

TEST_P(RankNodes, GoOnWithWhatWasSaved) {
  ThreadWorlds(GetParam().ranks).run([&](World& world) {
    QuadraticData data;
    AsyncRunner before(run_of(world)), after(run_of(world));
    before->run(before.segment(data));
    before->run(before.segment(data, 0, 7));
    const EngineState saved = before->state();
    const size_t bytes = before->snapshot().parameters.size();
    const std::vector<Bytes> values = contents(saved.buffers, bytes);
    after->restore(before->snapshot(), saved.place, [&](const std::vector<EngineBuffer>& buffers) {
      for (size_t b = 0; b < buffers.size(); ++b) {
        EXPECT_EQ(buffers[b].index, saved.buffers[b].index);
        std::ranges::copy(values[b], buffers[b].data);
      }
    });
    EXPECT_EQ(contents(after->state().buffers, bytes), values);
    after->run(after.segment(data, 7, kBatches - 7));
    const std::vector<NodeState> nodes = after->state().place.nodes;
    EXPECT_EQ(rows_learned(nodes), 2 * QuadraticData::kEpochRows);
    EXPECT_GE(nodes.back().numbers.steps, saved.place.nodes.back().numbers.steps);
  });
}

/// Also who was answered when the segment's last batch was gone steps in the next segment.
TEST_P(RankNodes, AllStepInEverySegment) {
  constexpr int64_t kSegments = 10;
  const int64_t batches = 12 * GetParam().all();
  ThreadWorlds(GetParam().ranks).run([&](World& world) {
    QuadraticData data;
    data.shortest_delay_us = 300;
    data.longest_delay_us = 400;
    AsyncRunner engine(run_of(world));
    std::vector<float> losses(static_cast<size_t>(batches));
    Segment segment = engine.segment(data);
    segment.epoch_batches = (kSegments + 1) * batches;
    segment.batches = batches;
    segment.losses = losses;
    std::vector<int64_t> before;
    for (int64_t s = 0; s < kSegments; ++s) {
      segment.first_batch = s * batches;
      before.clear();
      for (const NodeState& node : engine->state().place.nodes) {
        before.push_back(node.report.updates);
      }
      EXPECT_EQ(engine->run(segment), batches);
    }
    const std::vector<NodeState> nodes = engine->state().place.nodes;
    for (size_t j = 0; j < nodes.size(); ++j) EXPECT_GT(nodes[j].report.updates, before[j]) << j;
  });
}

TEST_P(RankNodes, ComeToTheSameBitsInTheSameOrder) {
  const Repeated first = run(nullptr, 1);
  for (const uint64_t chance : {100, 200}) {
    const Repeated again = run(&first, chance);
    EXPECT_EQ(again.orders, first.orders);
    EXPECT_EQ(again.buffers, first.buffers);
  }
}

TEST_P(RankNodes, SayThatAnOrderEndsTooEarly) {
  Repeated first = run(nullptr, 1);
  for (auto& order : first.orders) order.resize(order.size() / 2);
  const std::string error = error_of([&] { run(&first, 2); });
  EXPECT_NE(error.find("the order to be replayed ends"), std::string::npos) << error;
}

constexpr std::array<std::string_view, 7> kSyncs{
    "gossip-push", "gossip-pull", "sgp", "ad-psgd", "downpour", "async-easgd", "async-eamsgd"};

std::vector<Ranks> cases() {
  std::vector<Ranks> all;
  for (const std::string_view sync : kSyncs) {
    for (const auto& [ranks, nodes] : {std::pair{2, 1}, {2, 2}, {3, 1}}) {
      all.push_back({sync, ranks, nodes});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sync, RankNodes, ::testing::ValuesIn(cases()), [](const auto& info) {
  const Ranks& c = info.param;
  std::string name = fmt::format("{}_{}_by_{}", c.sync, c.ranks, c.nodes);
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace crossbow::testing
