// An optimizer that the library does not know, with two slots: it trains, is averaged, saved and
// gone on with as it says itself, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "learner/quadratic.h"
#include "models/model.h"
#include "passes/passes.h"
#include "support/adam.h"
#include "support/graph_testing.h"
#include "train/encoded.h"
#include "train/recipe.h"

namespace crossbow::testing {
namespace {

using Vector = std::vector<float>;

constexpr double kDecay = 0.01;
constexpr int64_t kPeriod = 2;  // of local-sgd

/// Weights and slots, one weight at a time.
struct Weights {
  Vector w, m = Vector(w.size()), v = Vector(w.size());

  void step(const Vector& g, double rate, double alpha, const Vector& z) {
    const auto lr = static_cast<float>(rate), pull = static_cast<float>(alpha);
    for (size_t i = 0; i < w.size(); ++i) {
      const float d = g[i] + static_cast<float>(kDecay) * w[i];
      m[i] = 0.9f * m[i] + (1 - 0.9f) * d;
      v[i] = 0.99f * v[i] + (1 - 0.99f) * (d * d);
      const float pulled = pull > 0 ? pull * (w[i] - z[i]) : 0;
      w[i] = w[i] - lr * (m[i] / (std::sqrt(v[i]) + 1e-3f)) - pulled;
    }
  }
};

/// Σ factors[t]·terms[t], rounded as the vector math rounds it.
Vector sum_of(const std::vector<double>& factors, const std::vector<const Vector*>& terms) {
  Vector sum(terms[0]->size());
  for (size_t i = 0; i < sum.size(); ++i) {
    for (size_t t = 0; t < terms.size(); ++t) {
      sum[i] += static_cast<float>(factors[t]) * (*terms[t])[i];
    }
  }
  return sum;
}

/// The learners of a run, with gradients of a program that updates nothing.
class Model {
 public:
  Model(const QuadraticRun& run, const std::string& kernels) : sync_(run.sync) {
    Vector first(kInputs);
    for (int64_t i = 0; i < kInputs; ++i) first[i] = first_weight(i);
    learners_.assign(static_cast<size_t>(run.options.learners), {first});
    shared_ = {first};
    z_ = before_ = first;
    CompileOptions options;
    options.device = kernels;
    const Graph net = fuse(regression(0));
    for (const int64_t rows : {kRows, kLastRows}) {
      programs_.try_emplace(rows, training_graph(net, rows), options);
    }
  }

  void epoch(const QuadraticData& data) {
    for (int64_t b = 0; b < kBatches; b += k(), ++iteration_) iteration(data, b);
  }
  const Vector& z() const { return sync_ == "none" ? learners_[0].w : z_; }
  const Vector& weights(int j) const {
    return sync_ == "ssgd" ? z_ : learners_[static_cast<size_t>(j)].w;
  }

 private:
  int64_t k() const { return static_cast<int64_t>(learners_.size()); }

  Vector gradient(const QuadraticData& data, int64_t b, const Vector& w) {
    GraphRun& run = programs_.at(QuadraticData::rows(b));
    run.set("w.weight", std::vector<double>(w.begin(), w.end()));
    run.step().inputs = {data.x(b), data.target(b)};
    run.run();
    const std::vector<double> g = run.gradient("w.weight");
    return {g.begin(), g.end()};
  }

  void iteration(const QuadraticData& data, int64_t first) {
    const double rate = quadratic_rate(first), alpha = 1 / static_cast<double>(k());
    const bool pulls = sync_ == "sma-paper", shares = sync_ == "ssgd";
    std::vector<Vector> old, gradients;
    double all_rows = 0;
    std::vector<double> rows;
    for (int64_t j = 0; j < k(); ++j) {
      const int64_t b = first + j;
      const Weights& learner = learners_[static_cast<size_t>(j)];
      old.push_back(learner.w);
      rows.push_back(b < kBatches ? static_cast<double>(QuadraticData::rows(b)) : 0);
      all_rows += rows.back();
      gradients.push_back(b < kBatches ? gradient(data, b, shares ? shared_.w : learner.w)
                                       : Vector(kInputs));
    }
    if (shares) {
      for (double& share : rows) share /= all_rows;
      shared_.step(mean_of(rows, gradients), rate, 0, {});
      z_ = shared_.w;
      return;
    }
    for (size_t j = 0; j < learners_.size(); ++j) {
      Vector& w = learners_[j].w;
      if (rows[j] > 0) {
        learners_[j].step(gradients[j], rate, pulls ? alpha : 0, z_);
      } else if (pulls) {
        w = sum_of({1 - alpha, alpha}, {&old[j], &z_});
      }
    }
    const std::vector<double> shares_of_all(learners_.size(), alpha);
    if (pulls) {
      const Vector mean = mean_of(shares_of_all, old);
      const double strength = alpha * static_cast<double>(k());
      Vector next = sum_of({strength, 1 - strength + 0.9, -0.9}, {&mean, &z_, &before_});
      before_ = std::exchange(z_, std::move(next));
    } else if (sync_ == "local-sgd" && (iteration_ + 1) % kPeriod == 0) {
      for (size_t j = 0; j < learners_.size(); ++j) old[j] = learners_[j].w;
      z_ = mean_of(shares_of_all, old);
      for (Weights& learner : learners_) learner.w = z_;
    }
  }

  static Vector mean_of(const std::vector<double>& shares, const std::vector<Vector>& all) {
    std::vector<const Vector*> terms;
    for (const Vector& v : all) terms.push_back(&v);
    return sum_of(shares, terms);
  }

  const std::string sync_;
  std::vector<Weights> learners_;
  Weights shared_;  // of ssgd
  Vector z_, before_;
  std::map<int64_t, GraphRun> programs_;  // by rows
  int64_t iteration_ = 0;
};

/// By way of a file's bytes.
void go_on(QuadraticEngine& from, QuadraticEngine& to) {
  Checkpoint saved;
  saved.options = with_recipe({}, find_model("lenet").recipe);
  saved.image = {1, 28, 28};
  saved.classes = 10;
  saved.samples = 60000;
  store(from->layout(), from->snapshot(), saved);
  store(from->layout(), from->state().buffers, saved);
  const Checkpoint read = decoded(encoded(saved));
  std::set<std::string> slots;
  for (const auto& tensor : read.tensors) {
    if (tensor.role == Checkpoint::Role::slot) slots.insert(tensor.slot);
  }
  EXPECT_EQ(slots, (std::set<std::string>{"m", "v"}));
  const Replica first(to->layout(), /*with_gradients=*/false);
  restore(read, to->layout(), first);
  to->restore(first, from->state().place, [&](const std::vector<EngineBuffer>& buffers) {
    restore(read, to->layout(), buffers);
  });
}

class OwnOptimizer : public ::testing::TestWithParam<std::string> {};

TEST_P(OwnOptimizer, HasTheBitsOfItsEquations) {
  for (const std::string device : {"ref", "late-ref"}) {
    SCOPED_TRACE(device);
    QuadraticRun run{.sync = GetParam(), .options = {.learners = 3}};
    if (run.sync == "none") run.options.learners = 1;
    if (run.sync == "local-sgd") run.options.period = kPeriod;
    run.device = device;
    run.optimizer = make_adam(kDecay);
    QuadraticData data;
    QuadraticEngine engine(run), resumed(run);
    Model model(run, "ref");
    engine.run(data);
    model.epoch(data);
    go_on(engine, resumed);
    for (QuadraticEngine* e : {&engine, &resumed}) e->run(data);
    model.epoch(data);
    for (QuadraticEngine* e : {&engine, &resumed}) {
      EXPECT_EQ(e->z(), model.z());
      for (int j = 0; j < run.options.learners; ++j) EXPECT_EQ(e->weights(j), model.weights(j));
    }
  }
}

TEST_P(OwnOptimizer, HasTheCpusBitsOnAnAsynchronousDevice) {
  QuadraticRun run{.sync = GetParam(), .options = {.learners = 4}};
  if (run.sync == "none") run.options.learners = 1;
  run.optimizer = make_adam(kDecay);
  QuadraticData data;
  const auto trained = [&](const char* device, int devices) {
    run.device = device;
    run.devices = devices;
    QuadraticEngine engine(run);
    engine.run(data);
    return engine.z();
  };
  EXPECT_EQ(trained("cpu", 1), trained("late", 1));
  if (run.sync == "none") return;
  EXPECT_EQ(trained("cpu", 2), trained("late", 2));
}

INSTANTIATE_TEST_SUITE_P(Sync, OwnOptimizer,
                         ::testing::Values("none", "ssgd", "local-sgd", "sma-paper"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace crossbow::testing
