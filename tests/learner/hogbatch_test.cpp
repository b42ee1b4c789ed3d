// Unlike workers on the virtual clock against their equations, written out in double, one event at
// a time; and on the real clock, where bits depend on timing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>

#include "device/hogwild_sgd.h"
#include "learner/async_engine.h"
#include "learner/quadratic.h"
#include "support/error_text.h"
#include "support/late_device.h"
#include "support/node_states.h"

namespace crossbow::testing {
namespace {

using Vector = std::vector<double>;
using Clock = AsyncSettings::Clock;

constexpr uint64_t kSeed = 5;
constexpr int64_t kGrain = 2;                      // rows of a batch
constexpr int64_t kSamples = 87;                   // the last batch has one row
constexpr int64_t kAll = (kSamples + 1) / kGrain;  // batches
constexpr double kCostlyRows = 8;

double rate_of(int64_t batch) {
  return 0.02 / (1 + 0.01 * static_cast<double>(batch));
}

/// Rows of the problem of quadratic.h, served by range.
class RowData final : public data::BatchSource {
 public:
  RowData() : x_(kSamples * kInputs), target_(kSamples) {
    Rng rng(3, Purpose::synthetic);
    for (float& x : x_) x = rng.uniform(-0.02f, 0.03f);
    for (float& t : target_) t = rng.uniform(-1, 2);
  }
  const data::Batch& acquire(int64_t index) override {
    return acquire_rows(index * kGrain, kGrain, 0);
  }
  const data::Batch& acquire_rows(int64_t first, int64_t rows, int) override {
    EXPECT_LE(first + rows, kSamples);
    const std::lock_guard lock(mutex_);
    return held_.emplace_back(data::Batch{
        first / kGrain, rows, {&x_[static_cast<size_t>(first * kInputs)], &target_[first]}});
  }
  void release(const data::Batch& batch) override {
    const std::lock_guard lock(mutex_);
    held_.remove_if([&](const data::Batch& b) { return &b == &batch; });
  }

  Vector gradient(int64_t first, int64_t rows, const Vector& w, double& loss) const {
    Vector g(w.size());
    loss = 0;
    for (int64_t r = first; r < first + rows; ++r) {
      const float* row = &x_[static_cast<size_t>(r * kInputs)];
      double error = -target_[static_cast<size_t>(r)];
      for (size_t i = 0; i < w.size(); ++i) error += w[i] * row[i];
      loss += error * error / static_cast<double>(rows);
      for (size_t i = 0; i < w.size(); ++i) {
        g[i] += 2 * error * row[i] / static_cast<double>(rows);
      }
    }
    return g;
  }

 private:
  std::vector<float> x_, target_;
  std::mutex mutex_;
  std::list<data::Batch> held_;
};

struct Workers {
  const char* sync = "adaptive-hogbatch";
  std::string_view merge = {};
  const char* device = "ref";
  const char* away = nullptr;  // where the last worker's programs run, if elsewhere
  Clock clock = Clock::virtual_time;
  double weight_decay = 0.01, rate_exponent = 0.5;
  bool faulty = false;

  /// A live worker with two threads, one with a replica, a second one of that kind.
  std::vector<NodeWorker> workers() const {
    return {{.terms = {.nodes = 2, .least = 1, .most = 4, .first = 1, .updates_per_step = 0.75},
             .rows = {2, 4, 8}},
            {.terms = {.least = 4, .most = 16, .first = 16}, .rows = {8, 16, 32}, .replica = true},
            {.terms = {.least = 2, .most = 4, .first = 4}, .rows = {4, 8}, .replica = true}};
  }
  AsyncSettings settings() const {
    AsyncSettings s;
    s.clock = clock;
    s.pace = {.spread = 0.3, .slowness = {1, 2, 1}, .costly_rows = kCostlyRows};
    s.workers = workers();
    s.samples = kSamples;
    s.rate_exponent = rate_exponent;
    if (merges()) s.round = 2 * 4 + 16 + 4;  // a largest step of each node
    return s;
  }
  bool merges() const { return sync == std::string("adaptive-sgd"); }
  bool live() const { return clock == Clock::real && !merges(); }
};

class Engine {
 public:
  explicit Engine(const Workers& run) : run_(run) {
    CompileOptions o;
    o.device = run.device;
    if (run.live()) o.update = make_hogwild_sgd(run.weight_decay);
    std::vector<CompiledModel*> by_node;
    EngineOptions e;
    e.optimizer = run.live() ? *o.update : make_sgd({0, run.weight_decay});
    for (const NodeWorker& worker : run.workers()) {
      if (!models_.empty()) o.parameters = models_.front()->parameters();
      if (run.away && models_.size() == 2) {
        o.device = run.away;
        o.update.reset();
        e.away = {nullptr, nullptr, nullptr, &find_device(run.away)};
      }
      models_.push_back(std::make_unique<CompiledModel>(regression(0, run.faulty), o));
      for (const int64_t rows : worker.rows) models_.back()->training(rows);
      by_node.insert(by_node.end(), static_cast<size_t>(worker.terms.nodes), models_.back().get());
    }
    e.learners = static_cast<int>(by_node.size());
    e.threads = {1, e.learners, 1};
    e.batch = {kGrain, kSamples % kGrain, 1, BatchFormat::dense(kInputs)};
    e.seed = kSeed;
    AsyncOptions options;
    options.merge = run.merge;
    engine_ =
        std::make_unique<AsyncEngine>(by_node, make_async(run.sync, options), run.settings(), e);
    Replica first(engine_->layout());
    write_first_weights(engine_->layout(), first);
    engine_->start_from(first);
  }

  /// To the epoch's end, or until it is stopped; the number of batches done.
  int64_t run(RowData& data, int64_t first = 0) {
    const int64_t round = engine_->round() > 0 ? engine_->round() : kAll;
    for (int64_t next = first;;) {
      const int64_t batches = std::min(kAll - next, round - next % round);
      const int64_t done = segment(data, next, batches);
      next += done;
      if (done < batches || next == kAll) return next - first;
    }
  }
  AsyncEngine* operator->() { return engine_.get(); }
  std::vector<float> z() {
    return weights_at(engine_->layout(), find_device(run_.device),
                      engine_->snapshot().parameters.data());
  }

  std::vector<float> losses = std::vector<float>(kAll);
  std::atomic<int> calls{1 << 30};  // of `stop`, until the run is to stop

 private:
  int64_t segment(RowData& data, int64_t first, int64_t batches) {
    Segment s;
    s.source = &data;
    s.epoch_batches = kAll;
    s.first_batch = first;
    s.batches = batches;
    s.rate = rate_of;
    s.stop = [this] { return calls-- <= 0; };
    s.losses = std::span(losses).subspan(static_cast<size_t>(first));
    s.progress = [](int64_t) {};
    return engine_->run(s);
  }

  const Workers run_;
  std::vector<std::unique_ptr<CompiledModel>> models_;
  std::unique_ptr<AsyncEngine> engine_;
};

/// The equations at the head of sync/hogbatch.cpp.
class Reference {
 public:
  explicit Reference(const Workers& run) : run_(run), settings_(run.settings()) {
    z.resize(static_cast<size_t>(kInputs));
    for (size_t i = 0; i < z.size(); ++i) z[i] = first_weight(static_cast<int64_t>(i));
    for (size_t w = 0; w < settings_.workers.size(); ++w) {
      sizes.push_back(settings_.workers[w].terms.first);
      for (int n = 0; n < settings_.workers[w].terms.nodes; ++n) nodes_.push_back({w});
    }
    updates_.resize(sizes.size());
    steps_.resize(sizes.size());
  }

  void epoch(const RowData& data) {
    for (int64_t first = 0, end = 0; first < kAll; first = end) {
      end = run_.merges() ? std::min(kAll, first + settings_.round) : kAll;
      round(data, first, end, end - first == settings_.round);
    }
  }

  Vector z, losses = Vector(kAll);
  std::vector<int64_t> sizes;  // by worker

 private:
  struct Node {
    size_t worker;
    double time = 0, lr = 0;
    int64_t number = 0, in_round = 0;
    bool stepping = false, parked = false;
    Vector snapshot, gradient, own;
  };

  void round(const RowData& data, int64_t next, int64_t end_of_round, bool whole) {
    for (Node& node : nodes_) {
      node.parked = false;
      node.in_round = 0;
      node.own = z;
    }
    for (;;) {
      Node* node = nullptr;
      for (Node& n : nodes_) {
        if (!n.parked && (!node || n.time < node->time)) node = &n;
      }
      if (!node) break;
      const NodeWorker& worker = settings_.workers[node->worker];
      Vector& w = run_.merges() ? node->own : z;
      if (node->stepping) {
        if (run_.merge == "overwrite" && worker.replica) z = node->snapshot;
        for (size_t i = 0; i < w.size(); ++i) {
          w[i] -= node->lr * (node->gradient[i] + run_.weight_decay * w[i]);
        }
        ++node->number;
        ++node->in_round;
        updates_[node->worker] += worker.terms.updates_per_step;
        if (!run_.merges() && ++steps_[node->worker] == worker.terms.nodes) adapt(node->worker);
      }
      const int64_t left = end_of_round - next;
      int64_t size = sizes[node->worker];
      while (size > left && size > worker.terms.least) size /= 2;
      node->stepping = size <= left && left > 0;
      node->parked = !node->stepping;
      if (node->parked) continue;
      const int64_t end = std::min((next + size) * kGrain, kSamples);
      node->snapshot = w;
      double loss = 0;
      node->gradient = data.gradient(end - size * kGrain, size * kGrain, w, loss);
      std::fill_n(losses.begin() + next, size, loss);
      node->lr = rate_of(next) * std::pow(static_cast<double>(size), run_.rate_exponent);
      node->time += settings_.pace.duration(kSeed, static_cast<int>(node - nodes_.data()),
                                            node->number, size * kGrain);
      next += size;
    }
    double last = 0;
    for (const Node& node : nodes_) last = std::max(last, node.time);
    for (Node& node : nodes_) node.time = last;
    if (run_.merges()) merge(whole);
    std::fill(updates_.begin(), updates_.end(), 0);
  }

  /// The equations at the head of sync/adaptive_sgd.cpp.
  void merge(bool whole) {
    double steps = 0;
    for (const Node& node : nodes_) steps += static_cast<double>(node.in_round);
    std::fill(z.begin(), z.end(), 0);
    for (const Node& node : nodes_) {
      const double share = static_cast<double>(node.in_round) / steps;
      for (size_t i = 0; i < z.size(); ++i) z[i] += share * node.own[i];
    }
    if (!whole) return;
    for (size_t w = 0; w < sizes.size(); ++w) {
      const WorkerTerms& terms = settings_.workers[w].terms;
      double others = -updates_[w];
      for (const double u : updates_) others += u;
      others /= static_cast<double>(updates_.size() - 1);
      const int64_t before = sizes[w];
      if (updates_[w] > std::sqrt(2.0) * others) sizes[w] = std::min(before * 2, terms.most);
      if (updates_[w] * std::sqrt(2.0) < others) sizes[w] = std::max(before / 2, terms.least);
      updates_[w] *= static_cast<double>(before) / static_cast<double>(sizes[w]);
    }
  }

  void adapt(size_t w) {
    steps_[w] = 0;
    if (std::string(run_.sync) == "hogbatch") return;
    double least = 1e300, most = -1;
    for (size_t other = 0; other < sizes.size(); ++other) {
      if (other == w) continue;
      least = std::min(least, updates_[other]);
      most = std::max(most, updates_[other]);
    }
    const WorkerTerms& terms = settings_.workers[w].terms;
    if (updates_[w] < least) sizes[w] = std::max(sizes[w] / 2, terms.least);
    if (updates_[w] > most) sizes[w] = std::min(sizes[w] * 2, terms.most);
  }

  const Workers run_;
  const AsyncSettings settings_;
  std::vector<Node> nodes_;
  Vector updates_;
  std::vector<int> steps_;
};

void expect_its_equations(const Workers& run) {
  SCOPED_TRACE(fmt::format("{} {} {}", run.sync, run.merge, run.device));
  RowData data;
  Engine engine(run);
  Reference reference(run);
  for (int epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(engine.run(data), kAll);
    reference.epoch(data);
    const auto z = engine.z();
    for (size_t i = 0; i < z.size(); ++i) ASSERT_NEAR(z[i], reference.z[i], 2e-5) << i;
    for (size_t b = 0; b < engine.losses.size(); ++b) {
      ASSERT_NEAR(engine.losses[b], reference.losses[b], 1e-4) << b;
    }
    const auto workers = engine->state().place.workers;
    for (size_t w = 0; w < workers.size(); ++w) {
      EXPECT_EQ(workers[w].size, reference.sizes[w]) << w;
    }
    EXPECT_EQ(rows_learned(engine->state().place.nodes), (epoch + 1) * kSamples);
  }
}

TEST(Hogbatch, FollowsItsEquations) {
  for (const char* device : {"ref", "cpu", "late"}) {
    for (const char* sync : {"hogbatch", "adaptive-hogbatch"}) {
      for (const char* merge : {"difference", "overwrite"}) {
        expect_its_equations({.sync = sync, .merge = merge, .device = device});
      }
    }
    expect_its_equations({.sync = "adaptive-sgd", .device = device});
  }
}

/// Its device computes with the same kernels, so the bits tell whether all that a step needs comes
/// there and back.
TEST(Hogbatch, AReplicaElsewhereChangesNoBits) {
  for (const char* sync : {"adaptive-hogbatch", "adaptive-sgd"}) {
    RowData data;
    const Workers here{.sync = sync, .device = "cpu"};
    Workers elsewhere = here;
    elsewhere.away = "late";
    Engine all_here(here), one_elsewhere(elsewhere);
    for (int epoch = 0; epoch < 2; ++epoch) {
      all_here.run(data);
      EXPECT_EQ(one_elsewhere.run(data), kAll);
      EXPECT_EQ(one_elsewhere.z(), all_here.z()) << sync;
      EXPECT_EQ(one_elsewhere.losses, all_here.losses) << sync;
    }
  }
}

/// As a GPU that is lost.
TEST(Hogbatch, OthersTakeTheRowsOfADeviceThatFails) {
  for (const Clock clock : {Clock::virtual_time, Clock::real}) {
    RowData data;
    const WithLateOptions options({.failing_work = 60});
    Engine engine(Workers{.device = "cpu", .away = "late", .clock = clock});
    // How soon it fails depends on which thread is given a core.
    std::vector<NodeFailure> failures;
    int epochs = 0;
    for (; failures.empty() && epochs < 200; ++epochs) {
      EXPECT_EQ(engine.run(data), kAll);
      failures = engine->take_failures();
    }
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].node, 3);
    EXPECT_GE(rows_learned(engine->state().place.nodes), epochs * kSamples);
  }
}

/// Sizes that move are what the adaptive one is for.
TEST(Hogbatch, TheAdaptiveOnesMoveTheirSizes) {
  for (const char* sync : {"adaptive-hogbatch", "adaptive-sgd"}) {
    RowData data;
    Engine engine(Workers{.sync = sync});
    for (int epoch = 0; epoch < 4; ++epoch) engine.run(data);
    const auto workers = engine->state().place.workers;
    EXPECT_GT(workers[0].most, workers[0].least) << sync;
    EXPECT_LT(workers[1].least, 16) << sync;
  }
}

/// Stopped after any number of turns, and gone on with by another engine.
TEST(Hogbatch, GoesOnWithTheSameBits) {
  for (const Workers& run :
       {Workers{.device = "cpu"}, Workers{.device = "late"},
        Workers{.device = "cpu", .away = "late"}, Workers{.sync = "adaptive-sgd", .device = "cpu"},
        Workers{.sync = "adaptive-sgd", .device = "late"}}) {
    const char* const device = run.device;
    RowData data;
    Engine whole(run);
    whole.run(data);
    whole.run(data);
    for (const int stop : {0, 1, 4, 7, 10}) {
      SCOPED_TRACE(stop);
      Engine first(run), second(run);
      first.calls = stop;
      const int64_t done = first.run(data);
      ASSERT_LT(done, kAll);
      const EngineState from = first->state();
      Replica model(first->layout());
      Device& device_of = find_device(device);
      device_of.copy_now(model.parameters.data(), first->snapshot().parameters.data(),
                         model.parameters.size());
      second->restore(model, from.place, [&](const std::vector<EngineBuffer>& buffers) {
        ASSERT_EQ(buffers.size(), from.buffers.size());
        for (size_t i = 0; i < buffers.size(); ++i) {
          const size_t bytes =
              buffers[i].kind == EngineBuffer::Kind::states ? 0 : model.parameters.size();
          std::vector<std::byte> values(bytes);
          device_of.copy_now(values.data(), from.buffers[i].data, bytes);
          device_of.copy_now(buffers[i].data, values.data(), bytes);
        }
      });
      EXPECT_EQ(second.run(data, done), kAll - done);
      second.run(data);
      EXPECT_EQ(second.z(), whole.z());
      EXPECT_EQ(second->state().place.workers, whole->state().place.workers);
    }
  }
}

/// Without momentum a step's difference is a Hogwild step: the loss falls as it does for one.
TEST(Hogbatch, LearnsOnTheRealClock) {
  for (const char* sync : {"hogbatch", "adaptive-hogbatch", "adaptive-sgd"}) {
    for (const std::string_view merge : {"difference", "overwrite", ""}) {
      if ((sync == std::string("adaptive-sgd")) != merge.empty()) continue;
      for (const char* away : {"", "late", "late-ref"}) {
        const char* const device = away == std::string("late-ref") ? "ref" : "cpu";
        SCOPED_TRACE(fmt::format("{} {} {} {}", sync, merge, device, away));
        RowData data;
        Workers run{.sync = sync, .merge = merge, .device = device, .clock = Clock::real};
        if (*away) run.away = away;
        Engine engine(run);
        double first = 0, last = 0;
        // How many updates an epoch has depends on which worker is given a core.
        for (int epoch = 0; epoch < 6 || (last >= 0.9 * first && epoch < 200); ++epoch) {
          EXPECT_EQ(engine.run(data), kAll);
          last = 0;
          for (const float loss : engine.losses) last += static_cast<double>(loss);
          if (epoch == 0) first = last;
          EXPECT_EQ(rows_learned(engine->state().place.nodes), (epoch + 1) * kSamples);
        }
        EXPECT_LT(last, 0.9 * first);
      }
    }
  }
}

/// Nodes fail at random; the others train on all rows.
TEST(Hogbatch, OthersTakeTheRowsOfNodesThatFail) {
  for (const Clock clock : {Clock::virtual_time, Clock::real}) {
    for (uint32_t number = 0; number < 20; ++number) {
      const char* const sync = number < 10 ? "adaptive-hogbatch" : "adaptive-sgd";
      const uint32_t seed = number % 10;
      std::atomic<int> steps{0};
      std::atomic<size_t> failures{0};
      const int bad = static_cast<int>(5 + seed), worse = bad + 9;
      const WithFaults faults([&](int64_t, int64_t) {
        const int step = steps++;
        if (step != bad && step != worse) return;
        ++failures;
        fail("no luck");
      });
      Workers run{.sync = sync, .clock = clock, .faulty = true};
      RowData data;
      Engine engine(run);
      try {
        for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(engine.run(data), kAll);
      } catch (const NodesFailed& error) {
        EXPECT_NE(std::string(error.what()).find("failed twice"), std::string::npos);
        continue;
      }
      const auto place = engine->state().place;
      EXPECT_EQ(failed_nodes(place.nodes).size(), failures);
      EXPECT_EQ(rows_learned(place.nodes), 3 * kSamples);
      int64_t repeated = 0;
      for (const WorkerState& worker : place.workers) repeated += worker.repeated;
      // By the real clock larger steps may leave fewer than it takes to fail.
      EXPECT_TRUE(failures > 0 || clock == Clock::real);
      if (!run.merges() && failures > 0) {
        EXPECT_GT(repeated, 0);
      }
    }
  }
}

TEST(Hogbatch, ASizeNobodyHasIsRefused) {
  AsyncOptions options;
  options.sync.alpha = 1.5;
  EXPECT_NE(error_of([&] { make_async("adaptive-hogbatch", options); }).find("whole number"),
            std::string::npos);
  options = {};
  options.merge = "mean";
  EXPECT_NE(error_of([&] { make_async("hogbatch", options); }).find("overwrite"),
            std::string::npos);
  options = {.merge = "difference"};
  for (const char* sync : {"hogwild", "adaptive-sgd"}) {
    EXPECT_NE(error_of([&] { make_async(sync, options); }).find("no use"), std::string::npos);
  }
}

}  // namespace
}  // namespace crossbow::testing
