// Every asynchronous algorithm on the virtual clock against its equations, written out in double,
// one event at a time.
#include "sync/async.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/rng.h"
#include "learner/async_engine.h"
#include "learner/quadratic.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

using Vector = std::vector<double>;

constexpr uint64_t kSeed = 5;

struct AsyncRun {
  std::string sync;
  AsyncOptions options;
  double clip_norm = 0, weight_decay = 0;
  int workers = 2;
  int64_t splits = 1;
  std::string device = "ref";
  int64_t hidden = 0;
  AsyncSettings settings = {.clock = AsyncSettings::Clock::virtual_time,
                            .pace = {.spread = 0.3, .slowness = {1, 1, 4}}};

  int nodes() const { return static_cast<int>(options.sync.learners); }
  Optimizer optimizer() const {
    return make_sgd({options.sync.momentum, weight_decay, options.sync.nesterov});
  }
};

class AsyncRunner {
 public:
  explicit AsyncRunner(const AsyncRun& run)
      : kind_(run.device),
        model_(regression(run.hidden), compile_options(run)),
        engine_(compiled(run), make_async(run.sync, run.options), run.settings,
                engine_options(run)) {
    Replica first(engine_.layout());
    std::vector<float> w;
    for (int64_t i = 0; i < engine_.layout().trained(); ++i) {
      w.push_back(QuadraticEngine::first_weight(i));
    }
    size_t done = 0;
    for (const auto& slot : engine_.layout().parameters) {
      const auto n = static_cast<size_t>(slot.layout.shape.elements());
      write_tensor(slot.layout, first.parameters.as<float>() + slot.offset,
                   std::span<const float>(w).subspan(done, n));
      done += n;
    }
    engine_.start_from(first);
  }

  Segment segment(QuadraticData& data, int64_t first = 0, int64_t batches = kBatches) {
    Segment s;
    s.source = &data;
    s.epoch_batches = kBatches;
    s.first_batch = first;
    s.batches = batches;
    s.rate = rate;
    s.stop = [] { return false; };
    s.losses = std::span(losses).subspan(static_cast<size_t>(first));
    s.progress = [](int64_t) {};
    return s;
  }
  int64_t run(QuadraticData& data) { return engine_.run(segment(data)); }
  AsyncEngine* operator->() { return &engine_; }

  std::vector<float> z() { return floats(engine_.snapshot().parameters.data()); }
  std::vector<float> weights(int j) { return floats(engine_.weights(j)); }

  std::vector<float> losses = std::vector<float>(kBatches);
  std::function<double(int64_t)> rate = quadratic_rate;

 private:
  static CompileOptions compile_options(const AsyncRun& run) {
    CompileOptions o;
    o.device = run.device;
    return o;
  }
  static BatchShape batch(const AsyncRun& run) { return {kRows, kLastRows, run.splits, kInputs}; }
  static EngineOptions engine_options(const AsyncRun& run) {
    EngineOptions e;
    e.learners = run.nodes();
    e.threads = {1, run.workers, 1, {}};
    e.batch = batch(run);
    e.optimizer = run.optimizer();
    e.clip_norm = run.clip_norm;
    e.seed = kSeed;
    return e;
  }
  CompiledModel& compiled(const AsyncRun& run) {
    for (const int64_t rows : batch(run).program_rows()) model_.training(rows);
    return model_;
  }
  std::vector<float> floats(const std::byte* data) {
    const ParameterLayout& layout = engine_.layout();
    const HostWindow window(find_device(kind_), data,
                            static_cast<size_t>(layout.parameter_elements) * sizeof(float));
    std::vector<float> all;
    for (const auto& slot : layout.parameters) {
      std::vector<float> values(static_cast<size_t>(slot.layout.shape.elements()));
      read_tensor(slot.layout, reinterpret_cast<const float*>(window.data()) + slot.offset,
                  std::span<float>(values));
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  const std::string kind_;
  CompiledModel model_;
  AsyncEngine engine_;
};

/// Nodes, a server and messages, one turn at a time, in the order of the equations.
class Reference {
 public:
  explicit Reference(const AsyncRun& run) : run_(run), o_(run.options) {
    Vector first(static_cast<size_t>(weights_with(run.hidden)));
    for (size_t i = 0; i < first.size(); ++i) first[i] = QuadraticEngine::first_weight(i);
    nodes_.resize(static_cast<size_t>(run.nodes()));
    for (Node& node : nodes_) {
      node.w = node.base = first;
      node.v.resize(first.size());
      node.received.resize(first.size());
    }
    z_ = first;
    losses.resize(kBatches);
  }

  void epoch(const QuadraticData& data) {
    int64_t next = 0;
    std::vector<bool> parked(nodes_.size());
    while (!std::all_of(parked.begin(), parked.end(), [](bool b) { return b; })) {
      size_t j = nodes_.size();
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (!parked[i] && (j == nodes_.size() || nodes_[i].time < nodes_[j].time)) j = i;
      }
      Node& node = nodes_[j];
      if (node.stepping) end_step(j);
      node.stepping = next < kBatches;
      if (!node.stepping) {
        parked[j] = true;
        continue;
      }
      before_step(j);
      node.lr = quadratic_rate(next);
      node.gradient = data.gradient(next, run_.sync == "hogwild" ? z_ : node.w, run_.hidden,
                                    losses[static_cast<size_t>(next)]);
      node.time += run_.settings.pace.duration(kSeed, static_cast<int>(j), node.steps);
      ++next;
    }
    double last = 0;
    for (const Node& node : nodes_) last = std::max(last, node.time);
    for (Node& node : nodes_) node.time = last;
  }

  Vector evaluated() const {
    if (has_server() || run_.sync == "hogwild") return z_;
    Vector mean(z_.size());
    double all = 0;
    for (const Node& node : nodes_) all += node.mass;
    for (const Node& node : nodes_) {
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += node.mass / all * node.w[i];
    }
    return mean;
  }
  const Vector& weights(int j) const {
    return run_.sync == "hogwild" ? z_ : nodes_[static_cast<size_t>(j)].w;
  }
  Vector losses;

 private:
  struct Node {
    Vector w, v, base, gradient, received;
    double mass = 1, received_mass = 0, time = 0, lr = 0;
    int64_t messages = 0, steps = 0;
    bool stepping = false;
  };

  bool has_server() const { return run_.sync == "downpour" || run_.sync.starts_with("async"); }

  void end_step(size_t j) {
    Node& node = nodes_[j];
    double norm = 0;
    for (const double x : node.gradient) norm += x * x;
    const double scale =
        run_.clip_norm > 0 ? std::min(1.0, run_.clip_norm / (std::sqrt(norm) + 1e-6)) : 1;
    Vector& w = run_.sync == "hogwild" ? z_ : node.w;
    const double momentum = o_.sync.momentum;
    for (size_t i = 0; i < w.size(); ++i) {
      const double d = scale * node.gradient[i] + run_.weight_decay * w[i];
      node.v[i] = momentum * node.v[i] + d;
      const double step = o_.sync.nesterov ? d + momentum * node.v[i] : node.v[i];
      w[i] -= node.lr / node.mass * step;
    }
    ++node.steps;
    gossip(j);
  }

  void gossip(size_t j) {
    Node& node = nodes_[j];
    if (has_server() || run_.sync == "hogwild") return;
    Rng rng(kSeed, Purpose::gossip, static_cast<uint32_t>(j),
            static_cast<uint64_t>(node.steps) * 2);
    if (o_.gossip_probability) {
      if (static_cast<double>(rng.uniform()) >= *o_.gossip_probability) return;
    } else if (node.steps % o_.sync.period.value_or(1) != 0) {
      return;
    }
    const auto k = nodes_.size();
    if (run_.sync == "sgp") {
      const int64_t hops = static_cast<int64_t>(std::floor(std::log2(k - 1))) + 1;
      Node& to = nodes_[(j + (size_t{1} << (node.steps % hops))) % k];
      node.mass /= 2;
      for (size_t i = 0; i < node.w.size(); ++i) to.received[i] += node.mass * node.w[i];
      to.received_mass += node.mass;
      ++to.messages;
      return;
    }
    auto other =
        static_cast<size_t>(static_cast<double>(rng.uniform()) * static_cast<double>(k - 1));
    if (other >= j) ++other;
    Node& peer = nodes_[other];
    const double alpha = o_.sync.alpha.value_or(0.5);
    for (size_t i = 0; i < node.w.size(); ++i) {
      const double mine = node.w[i], theirs = peer.w[i];
      if (run_.sync == "gossip-pull") node.w[i] = (mine + theirs) / 2;
      if (run_.sync == "gossip-push") peer.received[i] += mine;
      if (run_.sync == "elastic-gossip") {
        node.w[i] -= alpha * (mine - theirs);
        peer.received[i] += alpha * (mine - theirs);
      }
      if (run_.sync == "ad-psgd") node.w[i] = peer.w[i] = (mine + theirs) / 2;
    }
    peer.messages += run_.sync == "gossip-push" || run_.sync == "elastic-gossip" ? 1 : 0;
  }

  void before_step(size_t j) {
    Node& node = nodes_[j];
    const int64_t period = o_.sync.period.value_or(run_.sync == "downpour" ? 1 : 4);
    if (has_server() && node.steps % period == 0) {
      const double alpha = o_.sync.alpha.value_or(0.9 / static_cast<double>(nodes_.size()));
      for (size_t i = 0; i < z_.size(); ++i) {
        if (run_.sync == "downpour") {
          z_[i] += node.w[i] - node.base[i];
          node.w[i] = node.base[i] = z_[i];
        } else {
          const double d = alpha * (node.w[i] - z_[i]);
          node.w[i] -= d;
          z_[i] += d;
        }
      }
    }
    if (node.messages == 0) return;
    for (size_t i = 0; i < node.w.size(); ++i) {
      if (run_.sync == "elastic-gossip") node.w[i] += node.received[i];
      if (run_.sync == "gossip-push") {
        node.w[i] = (node.w[i] + node.received[i]) / static_cast<double>(1 + node.messages);
      }
      if (run_.sync == "sgp") {
        node.w[i] = (node.mass * node.w[i] + node.received[i]) / (node.mass + node.received_mass);
      }
      node.received[i] = 0;
    }
    node.mass += node.received_mass;
    node.received_mass = 0;
    node.messages = 0;
  }

  const AsyncRun run_;
  const AsyncOptions& o_ = run_.options;
  std::vector<Node> nodes_;
  Vector z_;
};

struct Case {
  std::string name;
  AsyncRun run;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const AsyncEntry& entry : async_catalogue()) {
    const std::string sync(entry.name);
    const bool momentum = entry.needs.momentum != SolverNeeds::Momentum::none;
    const bool nesterov = entry.needs.momentum == SolverNeeds::Momentum::nesterov;
    std::string name = sync;
    std::replace(name.begin(), name.end(), '-', '_');
    for (const int64_t nodes : {2, 3, 8}) {
      AsyncRun run{.sync = sync, .options = {{.learners = nodes}, {}}};
      run.options.sync.momentum = momentum ? 0.8 : 0;
      run.options.sync.nesterov = nesterov;
      run.weight_decay = 0.01;
      all.push_back({name + "_of_" + std::to_string(nodes), run});
    }
    AsyncRun run{.sync = sync, .options = {{.learners = 3}, {}}};
    run.options.sync.momentum = nesterov ? 0.5 : 0;
    run.options.sync.nesterov = nesterov;
    if (entry.uses.gossip_probability) {
      run.options.gossip_probability = 0.6;
    } else if (entry.uses.period) {
      run.options.sync.period = 3;
    }
    if (entry.uses.alpha) run.options.sync.alpha = 0.2;
    run.clip_norm = 0.5;
    run.splits = 2;
    run.hidden = 3;
    all.push_back({name + "_with_all_options", run});
    if (!entry.uses.gossip_probability) continue;
    run.options.gossip_probability.reset();
    run.options.sync.period = 2;
    all.push_back({name + "_now_and_then", run});
  }
  return all;
}

void expect_near(const std::vector<float>& actual, const Vector& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  double difference = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(actual[i]) - expected[i]));
  }
  EXPECT_LT(difference, 2e-5) << what;
}

class Async : public ::testing::TestWithParam<Case> {};

TEST_P(Async, FollowsItsEquations) {
  for (const char* device : {"ref", "cpu"}) {
    SCOPED_TRACE(device);
    AsyncRun run = GetParam().run;
    run.device = device;
    QuadraticData data;
    AsyncRunner engine(run);
    Reference reference(run);
    for (int epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(engine.run(data), kBatches);
      reference.epoch(data);
      expect_near(engine.z(), reference.evaluated(), "evaluated");
      for (int j = 0; j < run.nodes(); ++j) {
        expect_near(engine.weights(j), reference.weights(j), "weights");
      }
      for (size_t b = 0; b < engine.losses.size(); ++b) {
        EXPECT_NEAR(engine.losses[b], reference.losses[b], 1e-4 * (1 + reference.losses[b])) << b;
      }
    }
  }
}

struct Bits {
  std::vector<float> z, losses;
  std::vector<std::vector<float>> weights;
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits bits(AsyncRunner& engine, const AsyncRun& run) {
  Bits all{engine.z(), engine.losses, {}};
  for (int j = 0; j < run.nodes(); ++j) all.weights.push_back(engine.weights(j));
  return all;
}

TEST_P(Async, HasTheSameBitsWhateverTheWorkersAndTheirTiming) {
  AsyncRun run = GetParam().run;
  run.device = "cpu";
  const auto trained = [&] {
    QuadraticData data;
    data.longest_delay_us = 300;
    data.seed = static_cast<uint64_t>(run.workers);
    AsyncRunner engine(run);
    for (int epoch = 0; epoch < 2; ++epoch) engine.run(data);
    return bits(engine, run);
  };
  const Bits expected = trained();
  for (const int workers : {1, 3, 5}) {
    run.workers = workers;
    EXPECT_TRUE(trained() == expected) << workers;
  }
  run.device = "late";
  EXPECT_TRUE(trained() == expected) << "late";
}

void copy_all(AsyncRunner& from, AsyncRunner& to, const AsyncRun& run) {
  Device& device = find_device(run.device);
  const auto states = from->node_states();
  const auto source = from->buffers(), target = to->buffers();
  ASSERT_EQ(source.size(), target.size());
  const auto& layout = from->layout();
  for (size_t i = 0; i < source.size(); ++i) {
    const int64_t elements = source[i].kind == EngineBuffer::Kind::states
                                 ? layout.state_elements
                                 : layout.parameter_elements;
    if (elements == 0) continue;
    device.copy_now(target[i].data, source[i].data, static_cast<size_t>(elements) * sizeof(float));
  }
  to->set_node_states(states);
  to->resume(from->exchanges(), from->since_exchange());
}

/// In segments of all kinds: ended by a drop of the rate, by a stop, and gone on with elsewhere.
TEST_P(Async, GoesOnFromWhereItWasStopped) {
  for (const char* device : {"cpu", "late"}) {
    SCOPED_TRACE(device);
    AsyncRun run = GetParam().run;
    run.device = device;
    QuadraticData data;
    AsyncRunner whole(run);
    for (int epoch = 0; epoch < 2; ++epoch) whole.run(data);
    const Bits expected = bits(whole, run);

    for (int64_t stop = 0; stop <= kBatches; stop += 3) {
      AsyncRunner first(run), second(run);
      first.run(data);
      Segment segment = first.segment(data);
      std::atomic<int64_t> asked{0};
      segment.stop = [&] { return asked++ >= stop; };
      const int64_t done = first->run(segment);
      EXPECT_EQ(done, stop);
      copy_all(first, second, run);
      second.losses = first.losses;
      if (done < kBatches) second->run(second.segment(data, done, kBatches - done));
      EXPECT_TRUE(bits(second, run) == expected) << stop;
    }
    AsyncRunner parts(run);
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int64_t first = 0; first < kBatches; first += 4) {
        const int64_t batches = std::min<int64_t>(4, kBatches - first);
        EXPECT_EQ(parts->run(parts.segment(data, first, batches)), batches);
      }
    }
    EXPECT_TRUE(bits(parts, run) == expected) << "in parts";
  }
}

/// Live nodes on the wall clock, and their turns again, one after the other.
TEST_P(Async, ReplaysARealRunToTheBit) {
  for (const char* device : {"cpu", "late"}) {
    SCOPED_TRACE(device);
    AsyncRun run = GetParam().run;
    run.device = device;
    run.workers = run.nodes();
    run.settings = {.clock = AsyncSettings::Clock::real};
    QuadraticData data;
    data.longest_delay_us = 500;
    AsyncRunner live(run);
    for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(live.run(data), kBatches);

    run.settings.clock = AsyncSettings::Clock::replayed;
    run.settings.replay = live->order();
    run.workers = 1;
    AsyncRunner again(run);
    data.longest_delay_us = 0;
    for (int epoch = 0; epoch < 2; ++epoch) again.run(data);
    EXPECT_TRUE(bits(again, run) == bits(live, run));
    EXPECT_EQ(again->order(), live->order());
  }
}

INSTANTIATE_TEST_SUITE_P(Sync, Async, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

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
    const auto nodes = engine->node_states();
    EXPECT_EQ(nodes[0].report.updates + nodes[1].report.updates, 4 * kBatches);
    EXPECT_GE(nodes[0].report.updates, 2 * nodes[1].report.updates);
    EXPECT_GE(nodes[1].report.largest_staleness, 3);
    int64_t rows = 0;
    for (int64_t b = 0; b < kBatches; ++b) rows += QuadraticData::rows(b);
    EXPECT_EQ(nodes[0].report.rows + nodes[1].report.rows, 4 * rows);
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
      const auto nodes = engine->node_states();
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
      const auto states = engine->node_states();
      const auto buffers = engine->buffers();
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
