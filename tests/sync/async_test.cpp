// Every asynchronous algorithm on the virtual clock against its equations, written out in double,
// one event at a time.
#include "sync/async.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/rng.h"
#include "learner/async_runner.h"

namespace crossbow::testing {
namespace {

using Vector = std::vector<double>;

/// Nodes, a server and messages, one turn at a time, in the order of the equations.
class Reference {
 public:
  explicit Reference(const AsyncRun& run) : run_(run), o_(run.options) {
    Vector first(static_cast<size_t>(weights_with(run.hidden)));
    for (size_t i = 0; i < first.size(); ++i) first[i] = first_weight(i);
    nodes_.resize(static_cast<size_t>(run.nodes()));
    for (Node& node : nodes_) {
      node.w = node.base = first;
      node.v.resize(first.size());
      node.received.resize(first.size());
    }
    z_ = first;
    losses.resize(kBatches);
    cards_.resize(nodes_.size() + 1);
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
      deliver(node.time, {});
      ready_ = node.time;
      if (node.stepping) end_step(j);
      node.stepping = next < kBatches;
      if (node.stepping) {
        deliver(ready_, j);
        before_step(j);
      }
      node.time = ready_;
      if (!node.stepping) {
        parked[j] = true;
        continue;
      }
      node.lr = quadratic_rate(next);
      node.gradient = data.gradient(next, run_.sync == "hogwild" ? z_ : node.w, run_.hidden,
                                    losses[static_cast<size_t>(next)]);
      node.time += run_.settings.pace.duration(kAsyncSeed, static_cast<int>(j), node.steps, 0);
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
      w[i] -= node.lr / std::max(1.0, node.mass) * step;
    }
    ++node.steps;
    gossip(j);
  }

  void gossip(size_t j) {
    Node& node = nodes_[j];
    if (has_server() || run_.sync == "hogwild") return;
    Rng rng(kAsyncSeed, Purpose::gossip, static_cast<uint32_t>(j),
            static_cast<uint64_t>(node.steps) * 2);
    if (o_.gossip_probability) {
      if (static_cast<double>(rng.uniform()) >= *o_.gossip_probability) return;
    } else if (node.steps % o_.sync.period.value_or(1) != 0) {
      return;
    }
    const auto k = nodes_.size();
    if (run_.sync == "sgp") {
      const int64_t hops = static_cast<int64_t>(std::floor(std::log2(k - 1))) + 1;
      const int64_t time =
          o_.gossip_probability ? node.steps : node.steps / o_.sync.period.value_or(1);
      Node& to = nodes_[(j + (size_t{1} << (time % hops))) % k];
      if (node.mass < 0x1p-20) return;
      node.mass /= 2;
      Vector half = node.w;
      for (double& x : half) x *= node.mass;
      post(j, static_cast<size_t>(&to - nodes_.data()), half, node.mass);
      return;
    }
    auto other =
        static_cast<size_t>(static_cast<double>(rng.uniform()) * static_cast<double>(k - 1));
    if (other >= j) ++other;
    Node& peer = nodes_[other];
    const double alpha = o_.sync.alpha.value_or(0.5);
    for (size_t i = 0; i < node.w.size(); ++i) {
      const double mine = node.w[i], theirs = peer.w[i];
      const double d = alpha * (mine - theirs - peer.received[i]);
      if (run_.sync == "gossip-pull") node.w[i] = (mine + theirs) / 2;
      if (run_.sync == "elastic-gossip") {
        node.w[i] -= d;
        peer.received[i] += d;
      }
      if (run_.sync == "ad-psgd") node.w[i] = peer.w[i] = (mine + theirs) / 2;
    }
    peer.messages += run_.sync == "elastic-gossip" ? 1 : 0;
    if (run_.sync == "gossip-push") post(j, other, node.w, 1);
    if (run_.sync == "gossip-pull") pull(j, other);
    if (run_.sync == "ad-psgd") exchange(j, other);
  }

  struct Message {
    size_t from, to;
    double arrives, mass;
    Vector vector;
  };
  using Lane = std::vector<std::pair<double, double>>;
  struct Card {
    Lane out, in;
  };
  const std::optional<NetworkTerms>& network() const { return run_.settings.pace.network; }

  /// The first time from then on at which the lane is free for so long.
  static double book(Lane& lane, double from, double length) {
    const auto free_at = [&](double time) {
      return std::none_of(lane.begin(), lane.end(), [&](const auto& busy) {
        return busy.first < time + length && busy.second > time;
      });
    };
    double begin = from;
    if (!free_at(from)) {
      begin = std::numeric_limits<double>::infinity();
      for (const auto& busy : lane) {
        if (busy.second >= from && busy.second < begin && free_at(busy.second)) begin = busy.second;
      }
    }
    lane.emplace_back(begin, begin + length);
    return begin;
  }
  double send(size_t from, size_t to, double time) {
    const double takes = network()->transfer(static_cast<int64_t>(4 * z_.size()));
    const double leaves = book(cards_[from].out, time, takes);
    return book(cards_[to].in, leaves + network()->latency, takes) + takes;
  }
  void exchange(size_t j, size_t with) {
    if (network()) ready_ = send(with, j, send(j, with, ready_));
  }
  void pull(size_t j, size_t from) {
    if (network()) ready_ = send(from, j, ready_ + network()->latency);
  }
  void post(size_t from, size_t to, const Vector& vector, double mass) {
    flying_.push_back({from, to, network() ? send(from, to, ready_) : ready_, mass, vector});
    if (!network()) return deliver(ready_, to);
    double first = std::numeric_limits<double>::infinity();
    size_t own = 0;
    for (const Message& message : flying_) {
      if (message.from != from) continue;
      ++own;
      first = std::min(first, message.arrives);
    }
    if (own == 4) ready_ = std::max(ready_, first);
  }
  void deliver(double time, std::optional<size_t> to) {
    std::erase_if(flying_, [&](const Message& message) {
      if (message.arrives > time || (to && message.to != *to)) return false;
      Node& node = nodes_[message.to];
      for (size_t i = 0; i < z_.size(); ++i) node.received[i] += message.vector[i];
      node.received_mass += message.mass;
      ++node.messages;
      return true;
    });
  }

  void before_step(size_t j) {
    Node& node = nodes_[j];
    const int64_t period = o_.sync.period.value_or(run_.sync == "downpour" ? 1 : 4);
    if (has_server() && node.steps % period == 0) {
      exchange(j, nodes_.size());
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
    if (run_.sync == "sgp") node.mass += node.received_mass;
    node.received_mass = 0;
    node.messages = 0;
  }

  const AsyncRun run_;
  const AsyncOptions& o_ = run_.options;
  std::vector<Node> nodes_;
  Vector z_;
  std::vector<Card> cards_;  // the last one is the server's
  std::vector<Message> flying_;
  double ready_ = 0;
};

struct Case {
  std::string name;
  AsyncRun run;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const AsyncEntry& entry : async_catalogue()) {
    if (entry.uses.workers) continue;  // unlike ones: hogbatch_test.cpp
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
    const auto add_networks = [&](AsyncRun over) {
      const AsyncAlgorithm::Traits traits = make_async(sync, over.options)->traits();
      if (traits.live || traits.reads_inboxes) return;
      const auto bytes = static_cast<double>(4 * weights_with(over.hidden));
      over.options.sync.learners = 5;
      over.settings.pace.network = {.latency = 0.3, .bandwidth = bytes / 0.2};
      all.push_back({name + "_over_a_network", over});
      over.settings.pace.network = {.latency = 3, .bandwidth = bytes};
      all.push_back({name + "_over_a_slow_network", over});
    };
    run.options.sync.period.reset();
    run.options.gossip_probability.reset();
    add_networks(run);
    if (!entry.uses.gossip_probability) continue;
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
  const auto& layout = from->layout();
  const Replica first(layout, /*with_gradients=*/false);
  const auto [place, source] = from->state();
  to->restore(first, place, [&, &source = source](const std::vector<EngineBuffer>& target) {
    ASSERT_EQ(source.size(), target.size());
    for (size_t i = 0; i < source.size(); ++i) {
      const int64_t elements = source[i].kind == EngineBuffer::Kind::states
                                   ? layout.state_elements
                                   : layout.parameter_elements;
      if (elements == 0) continue;
      device.copy_now(target[i].data, source[i].data,
                      static_cast<size_t>(elements) * sizeof(float));
    }
  });
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
    run.settings.replay = live->take_turns();
    for (const int workers : {1, run.nodes()}) {
      run.workers = workers;
      AsyncRunner again(run);
      data.longest_delay_us = workers == 1 ? 0 : 500;
      for (int epoch = 0; epoch < 2; ++epoch) again.run(data);
      EXPECT_TRUE(bits(again, run) == bits(live, run));
      EXPECT_EQ(again->take_turns(), run.settings.replay);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sync, Async, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace crossbow::testing
