// Every algorithm against its equations, written out for linear regression in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "learner/quadratic.h"

namespace crossbow::testing {
namespace {

using Vector = std::vector<double>;

Vector mean_of(const std::vector<Vector>& all) {
  Vector mean(all[0].size());
  for (const Vector& v : all) {
    for (size_t i = 0; i < v.size(); ++i) mean[i] += v[i] / static_cast<double>(all.size());
  }
  return mean;
}

/// k learners and a central model, one iteration at a time, in the order of the equations.
class Reference {
 public:
  explicit Reference(const QuadraticRun& run) : run_(run), o_(run.options) {
    Vector first(static_cast<size_t>(weights_with(run.hidden)));
    for (size_t i = 0; i < first.size(); ++i) first[i] = first_weight(i);
    z_ = before_ = first;
    slow_.resize(first.size());
    w_.assign(static_cast<size_t>(o_.learners), first);
    v_.assign(static_cast<size_t>(o_.learners), Vector(first.size()));
    losses.resize(kBatches);
  }

  void epoch(const QuadraticData& data) {
    for (int64_t b = 0; b < kBatches; b += o_.learners) {
      iteration(data, b);
      ++i_;
    }
  }

  const Vector& z() const { return run_.sync == "none" ? w_[0] : z_; }
  const std::vector<Vector>& weights() const { return w_; }
  Vector losses;

 private:
  void iteration(const QuadraticData& data, int64_t first) {
    const double lr = quadratic_rate(first);
    const auto old = w_;
    std::vector<Vector> gradients(w_.size());
    Vector rows(w_.size());
    for (size_t j = 0; j < w_.size(); ++j) {
      const int64_t b = first + static_cast<int64_t>(j);
      if (b >= kBatches) continue;
      rows[j] = static_cast<double>(QuadraticData::rows(b));
      gradients[j] = data.gradient(b, w_[j], run_.hidden, losses[b]);
    }
    if (run_.sync == "ssgd") {
      Vector g(z_.size());
      double all = 0;
      for (const double r : rows) all += r;
      for (size_t j = 0; j < w_.size(); ++j) {
        for (size_t i = 0; rows[j] > 0 && i < g.size(); ++i)
          g[i] += rows[j] / all * gradients[j][i];
      }
      sgd(z_, v_[0], g, lr);
      w_.assign(w_.size(), z_);
      return;
    }
    for (size_t j = 0; j < w_.size(); ++j) {
      if (rows[j] > 0) sgd(w_[j], v_[j], gradients[j], lr);
    }
    const int64_t period = o_.period.value_or(default_period());
    if ((i_ + 1) % period == 0) exchange(old, lr);
  }

  int64_t default_period() const {
    return run_.sync == "local-sgd" || run_.sync == "slowmo" ? 8 : 1;
  }

  void sgd(Vector& w, Vector& v, const Vector& g, double lr) {
    double norm = 0;
    for (const double x : g) norm += x * x;
    const double scale =
        run_.clip_norm > 0 ? std::min(1.0, run_.clip_norm / (std::sqrt(norm) + 1e-6)) : 1;
    for (size_t i = 0; i < w.size(); ++i) {
      const double d = scale * g[i] + run_.weight_decay * w[i];
      v[i] = o_.momentum * v[i] + d;
      w[i] -= lr * (o_.nesterov ? d + o_.momentum * v[i] : v[i]);
    }
  }

  void exchange(const std::vector<Vector>& old, double lr) {
    const auto k = static_cast<double>(w_.size());
    if (run_.sync == "sma-paper")
      elastic(old, o_.alpha.value_or(1 / k), o_.central_momentum.value_or(0.9));
    if (run_.sync == "easgd" || run_.sync == "eamsgd") elastic(old, o_.alpha.value_or(0.9 / k), 0);
    if (run_.sync == "polyak-ruppert") {
      pull(old, o_.alpha.value_or(w_.size() == 1 ? 0 : 0.01));
      average_over_time(mean_of(old), 1);
    }
    if (run_.sync == "sma-delayed" && w_.size() > 1) {
      const Vector mean = mean_of(old);
      for (size_t j = 0; j < w_.size(); ++j) {
        for (size_t i = 0; i < mean.size(); ++i) w_[j][i] += mean[i] - old[j][i];
      }
      average_over_time(mean, every());
    }
    const Vector mean = mean_of(w_);
    if (run_.sync == "sma" || (run_.sync == "sma-delayed" && w_.size() == 1)) {
      for (Vector& w : w_) {
        for (size_t i = 0; i < w.size(); ++i) w[i] += o_.alpha.value_or(1) * (mean[i] - w[i]);
      }
      average_over_time(mean, w_.size() == 1 ? 1 : every());
    }
    if (run_.sync == "local-sgd" || run_.sync == "post-local-sgd") {
      z_ = mean;
      w_.assign(w_.size(), z_);
    }
    if (run_.sync == "slowmo") {
      for (size_t i = 0; i < z_.size(); ++i) {
        slow_[i] = o_.central_momentum.value_or(0.7) * slow_[i] + (z_[i] - mean[i]) / lr;
        z_[i] -= o_.alpha.value_or(1) * lr * slow_[i];
      }
      w_.assign(w_.size(), z_);
    }
  }

  /// Each fourth step, or each exchange if they are further apart.
  int64_t every() const { return std::max<int64_t>(1, 4 / o_.period.value_or(1)); }
  void average_over_time(const Vector& mean, int64_t every) {
    const int64_t exchange = exchanges_++;
    if (exchange % every > 0) return;
    const auto n = static_cast<double>(exchange / every + 1);
    const double eta = o_.averaging_eta.value_or(8);
    for (size_t i = 0; i < z_.size(); ++i) z_[i] += (mean[i] - z_[i]) * (eta + 1) / (n + eta);
  }

  void pull(const std::vector<Vector>& old, double alpha) {
    for (size_t j = 0; j < w_.size(); ++j) {
      for (size_t i = 0; i < z_.size(); ++i) w_[j][i] -= alpha * (old[j][i] - z_[i]);
    }
  }

  void elastic(const std::vector<Vector>& old, double alpha, double momentum) {
    pull(old, alpha);
    Vector next = z_;
    for (size_t i = 0; i < z_.size(); ++i) {
      for (const Vector& w : old) next[i] += alpha * (w[i] - z_[i]);
      next[i] += momentum * (z_[i] - before_[i]);
    }
    before_ = z_;
    z_ = next;
  }

  const QuadraticRun run_;
  const SyncOptions& o_ = run_.options;
  std::vector<Vector> w_, v_;
  Vector z_, before_, slow_;
  int64_t i_ = 0, exchanges_ = 0;
};

struct Case {
  std::string name;
  QuadraticRun run;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

Case make_case(const std::string& name, const std::string& sync, SyncOptions options,
               double clip_norm = 0, double weight_decay = 0) {
  Case c{name, {sync, options, clip_norm}};
  c.run.weight_decay = weight_decay;
  return c;
}

const Case kCases[] = {
    make_case("none", "none", {.momentum = 0.9}, 0, 0.01),
    make_case("ssgd", "ssgd", {.learners = 3, .momentum = 0.9}, 0, 0.01),
    make_case("ssgd_nesterov_clipped", "ssgd", {.learners = 2, .momentum = 0.5, .nesterov = true},
              0.3),
    make_case("sma", "sma", {.learners = 3, .momentum = 0.9}, 0, 0.01),
    make_case("sma_with_options", "sma",
              {.learners = 2, .period = 3, .alpha = 0.7, .averaging_eta = 2.5, .momentum = 0.9}),
    make_case("sma_of_one", "sma", {.learners = 1, .momentum = 0.9}, 0, 0.01),
    make_case("sma_of_one_every_third_step", "sma", {.learners = 1, .period = 3}),
    make_case("sma_clipped", "sma", {.learners = 2, .momentum = 0.9}, 0.3),
    make_case("sma_delayed", "sma-delayed", {.learners = 3, .momentum = 0.9}, 0, 0.01),
    make_case(
        "sma_delayed_with_options", "sma-delayed",
        {.learners = 2, .period = 3, .averaging_eta = 2.5, .momentum = 0.9, .nesterov = true}),
    make_case("sma_delayed_clipped", "sma-delayed", {.learners = 4, .momentum = 0.9}, 0.3),
    make_case("sma_delayed_of_one", "sma-delayed", {.learners = 1, .momentum = 0.9}),
    make_case("sma_paper", "sma-paper", {.learners = 3, .momentum = 0.9}, 0, 0.01),
    make_case("sma_paper_of_two", "sma-paper", {.learners = 2}),
    make_case("sma_paper_every_third_step", "sma-paper",
              {.learners = 2, .period = 3, .momentum = 0.9}),
    make_case("sma_paper_with_options", "sma-paper",
              {.learners = 4, .alpha = 0.1, .central_momentum = 0.5, .momentum = 0.5}),
    make_case("sma_paper_clipped", "sma-paper", {.learners = 2, .momentum = 0.9}, 0.3),
    make_case("easgd", "easgd", {.learners = 3}),
    make_case("easgd_every_other_step", "easgd", {.learners = 3, .period = 2, .alpha = 0.2}),
    make_case("eamsgd", "eamsgd", {.learners = 3, .momentum = 0.9, .nesterov = true}),
    make_case("polyak_ruppert", "polyak-ruppert", {.learners = 3, .momentum = 0.5}),
    make_case("polyak_ruppert_pulled", "polyak-ruppert", {.learners = 2, .alpha = 0.2}),
    make_case("polyak_ruppert_of_late", "polyak-ruppert",
              {.learners = 2, .averaging_eta = 2.5, .momentum = 0.9}),
    make_case("local_sgd", "local-sgd", {.learners = 3, .momentum = 0.9}),
    make_case("local_sgd_every_other_step", "local-sgd", {.learners = 3, .period = 2}),
    make_case("post_local_sgd_before_the_drop", "post-local-sgd", {.learners = 3, .momentum = 0.9}),
    make_case("slowmo", "slowmo", {.learners = 2, .period = 3, .momentum = 0.9}),
    make_case("slowmo_with_options", "slowmo",
              {.learners = 3, .period = 2, .alpha = 0.8, .central_momentum = 0.5}),
};

class Algorithms : public ::testing::TestWithParam<Case> {};

void expect_near(const std::vector<float>& got, const Vector& wanted, const std::string& what) {
  double distance = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    distance += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  EXPECT_LT(std::sqrt(distance / norm), 2e-6) << what;
}

/// On one device and on one for each learner, with whole batches and with batches in parts; for the
/// quadratic and for a small net.
TEST_P(Algorithms, FollowTheirEquations) {
  const auto all = static_cast<int>(GetParam().run.options.learners);
  const struct {
    const char* device;
    int devices;
    int64_t splits, hidden;
  } kWays[] = {{"ref", 1, 1, 0},   {"cpu", 1, 1, 0},      {"ref", all, 1, 0},
               {"cpu", all, 3, 0}, {"ref", 1, 2, 0},      {"ref", 1, 1, 3},
               {"cpu", all, 1, 3}, {"late-ref", 1, 2, 0}, {"late", 1, 1, 3}};
  for (const auto& [device, devices, splits, hidden] : kWays) {
    SCOPED_TRACE(::testing::Message()
                 << device << ' ' << devices << ' ' << splits << ' ' << hidden);
    QuadraticRun run = GetParam().run;
    run.device = device;
    run.devices = devices;
    run.splits = splits;
    run.hidden = hidden;
    QuadraticData data;
    QuadraticEngine engine(run);
    Reference reference(run);
    for (int epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(engine.run(data), kBatches);
      reference.epoch(data);
      for (int64_t b = 0; b < kBatches; ++b) {
        EXPECT_NEAR(engine.losses[b], reference.losses[b], 1e-5 * (1 + reference.losses[b]))
            << "batch " << b;
      }
    }
    expect_near(engine.z(), reference.z(), "central model");
    for (int j = 0; j < run.options.learners; ++j) {
      expect_near(engine.weights(j), reference.weights()[j], "learner " + std::to_string(j));
    }
  }
}

/// The central model after two epochs, and a weight of each learner.
std::vector<float> trained(QuadraticRun run, int workers, int longest_delay_us) {
  run.workers = workers;
  QuadraticData data;
  data.longest_delay_us = longest_delay_us;
  data.seed = static_cast<uint64_t>(workers);
  QuadraticEngine engine(run);
  engine.run(data);
  engine.run(data);
  std::vector<float> values = engine.z();
  for (int j = 0; j < run.options.learners; ++j) values.push_back(engine.weights(j)[kInputs - 1]);
  return values;
}

TEST_P(Algorithms, GiveTheSameBitsWhateverTheTiming) {
  QuadraticRun run = GetParam().run;
  const int64_t most = run.sync == "none" ? 1 : 8;
  for (int64_t learners = 1; learners <= most; ++learners) {
    run.options.learners = learners;
    const auto alone = trained(run, 1, 0);
    EXPECT_EQ(alone, trained(run, 2, 300)) << learners;
    EXPECT_EQ(alone, trained(run, static_cast<int>(learners), 300)) << learners;
  }
}

TEST_P(Algorithms, GiveTheSameBitsOnSeveralDevicesWhateverTheTiming) {
  QuadraticRun run = GetParam().run;
  if (run.sync == "none") return;
  for (const int devices : {2, 3}) {
    run.devices = devices;
    for (int64_t learners = devices; learners <= 6; learners += devices) {
      run.options.learners = learners;
      const auto alone = trained(run, 1, 0);
      EXPECT_EQ(alone, trained(run, 2, 300)) << learners << " on " << devices;
    }
  }
}

/// Two devices of two learners are one of four, but for the order in which a sum is rounded.
TEST_P(Algorithms, DoTheSameOnTwoDevicesAsOnOne) {
  QuadraticRun run = GetParam().run;
  if (run.sync == "none") return;
  run.options.learners = 4;
  run.device = "cpu";
  QuadraticData data;
  QuadraticEngine one(run);
  run.devices = 2;
  QuadraticEngine two(run);
  for (int epoch = 0; epoch < 2; ++epoch) {
    one.run(data);
    two.run(data);
  }
  const auto in_double = [](const std::vector<float>& v) { return Vector(v.begin(), v.end()); };
  expect_near(two.z(), in_double(one.z()), "central model");
  for (int j = 0; j < 4; ++j) {
    expect_near(two.weights(j), in_double(one.weights(j)), "learner " + std::to_string(j));
  }
}

/// With one exchange every τ steps, as it has one every step before.
TEST(PostLocalSgd, IsLocalSgdOnceTheRateHasDropped) {
  const auto learner = [](const char* sync) {
    QuadraticData data;
    QuadraticEngine engine({sync, {.learners = 2, .period = 4, .momentum = 0.9}});
    Segment segment = engine.segment(data);
    segment.after_first_drop = true;
    engine->run(segment);
    EXPECT_NE(engine.weights(1), engine.z());
    return engine.weights(1);
  };
  EXPECT_EQ(learner("post-local-sgd"), learner("local-sgd"));
}

INSTANTIATE_TEST_SUITE_P(Sync, Algorithms, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

/// With α = 1/k and no momentum z is the mean of the weights before the step.
TEST(ModelAveraging, IsTheMeanOfTheLearnersBeforeTheirStep) {
  QuadraticData data;
  const SyncOptions options{.learners = 3, .central_momentum = 0.0, .momentum = 0.9};
  QuadraticEngine engine({"sma-paper", options});
  engine->run(engine.segment(data, 0, 6));
  std::vector<double> mean(kInputs);
  for (int j = 0; j < 3; ++j) {
    for (int64_t i = 0; i < kInputs; ++i) mean[i] += engine.weights(j)[i] / 3.0;
  }
  engine->run(engine.segment(data, 6, 3));
  expect_near(engine.z(), mean, "central model");
}

/// Without gradients and momentum an exchange moves weights about, but keeps Σ w_j + z.
TEST(ModelAveraging, ConservesTheSumOfAllModels) {
  QuadraticData data;
  QuadraticEngine engine({"sma-paper", {.learners = 3, .alpha = 0.2, .central_momentum = 0.0}});
  engine->run(engine.segment(data, 0, 6));
  const auto sum = [&] {
    Vector all(kInputs);
    const std::vector<float> z = engine.z();
    for (int64_t i = 0; i < kInputs; ++i) all[i] = z[i];
    for (int j = 0; j < 3; ++j) {
      const std::vector<float> w = engine.weights(j);
      for (int64_t i = 0; i < kInputs; ++i) all[i] += w[i];
    }
    return all;
  };
  const Vector before = sum();
  Segment still = engine.segment(data, 0, 9);
  still.rate = [](int64_t) { return 0.0; };
  engine->run(still);
  const Vector after = sum();
  for (int64_t i = 0; i < kInputs; ++i) EXPECT_NEAR(before[i], after[i], 1e-5);
}

/// The equations for one weight, without a net: learners that all step by −ηG, momentum-free.
struct OneWeight {
  OneWeight(int64_t learners, double alpha, double m)
      : sma(make_sync("sma-paper", {.learners = learners, .alpha = alpha, .central_momentum = m})),
        w(static_cast<size_t>(learners)) {}

  void iteration(double step) {
    double mean = 0, next = 0;
    for (const double x : w) mean += x / static_cast<double>(w.size());
    Exchange exchange{.math = vector_math("ref", DType::f64)};
    exchange.n = 1;
    exchange.mean = &mean;
    exchange.z = &z;
    exchange.previous_z = &before;
    exchange.next_z = &next;
    sma->apply(exchange);
    for (double& x : w) x += step - sma->pull() * (x - z);
    before = std::exchange(z, next);
  }
  double gap() const { return w[0] - z; }

  std::unique_ptr<const SyncAlgorithm> sma;
  std::vector<double> w;
  double z = 0, before = 0;
};

/// All models drift at one rate, z behind by a gap that the central momentum makes smaller.
TEST(ModelAveraging, DriftsUnderAConstantGradientWithASteadyGap) {
  for (const double m : {0.0, 0.5, 0.9}) {
    for (const int64_t k : {2, 4, 8}) {
      const double alpha = 0.8 / static_cast<double>(k);
      OneWeight models(k, alpha, m);
      for (int i = 0; i < 2000; ++i) models.iteration(-0.01);
      const double z = models.z;
      models.iteration(-0.01);
      const double drift = -0.01 / (1 + (1 - m) / static_cast<double>(k));
      EXPECT_NEAR(models.z - z, drift, 1e-9) << k << ' ' << m;
      EXPECT_NEAR(models.gap(), (1 - m) * drift / (alpha * static_cast<double>(k)), 1e-9);
    }
  }
}

TEST(ModelAveraging, IsStableJustBelowItsBoundAndNotAboveIt) {
  const auto gap_after = [](int64_t k, double alpha, double m) {
    OneWeight models(k, alpha, m);
    models.z = models.before = 1;
    for (int i = 0; i < 3000; ++i) models.iteration(0);
    return std::abs(models.gap());
  };
  for (const double m : {0.0, 0.5, 0.9}) {
    for (const int64_t k : {2, 4, 16}) {
      const double bound = 2 * (1 + m) / (1 + static_cast<double>(k) + m);
      EXPECT_LT(gap_after(k, 0.995 * bound, m), 1e-3) << k << ' ' << m;
      EXPECT_THROW(gap_after(k, 1.001 * bound, m), UsageError);
      // Beyond it the same equations grow, so that the refusal is not too strict.
      double gap = 1, last = 0;
      for (int i = 0; i < 3000; ++i) {
        const double alpha = 1.01 * bound, step = alpha * static_cast<double>(k) * gap + m * last;
        gap -= alpha * gap + step;
        last = step;
      }
      EXPECT_GT(std::abs(gap), 1e3) << k << ' ' << m;
    }
  }
}

TEST(SyncOptions, HaveTheAlgorithmsOwnValuesWhereTheyAreOpen) {
  const SyncOptions paper = settled_options("sma-paper", {.learners = 4});
  EXPECT_EQ(paper.period, 1);
  EXPECT_EQ(paper.alpha, 0.25);
  EXPECT_EQ(paper.central_momentum, 0.9);
  EXPECT_FALSE(paper.averaging_eta);
  const SyncOptions alone = settled_options("sma", {.learners = 1});
  EXPECT_FALSE(alone.alpha);
  EXPECT_FALSE(alone.period);  // it follows from the epoch's length
  EXPECT_EQ(alone.averaging_eta, 8);
  EXPECT_EQ(settled_options("sma", {.learners = 2}).alpha, 1);
  EXPECT_EQ(settled_options("sma", {.learners = 2, .period = 3, .alpha = 0.5}).period, 3);
  const AsyncOptions gossip{.sync = {.learners = 2}, .gossip_probability = 0.1};
  EXPECT_FALSE(settled_options("gossip-pull", gossip).sync.period);
  EXPECT_EQ(settled_options("gossip-pull", AsyncOptions{}).sync.period, 1);
  EXPECT_FALSE(settled_options("ssgd", {.learners = 4}).period);
}

TEST(SyncOptions, AreRefusedWhereTheyMakeNoSense) {
  const auto refusal = [](const char* sync, SyncOptions options) {
    try {
      make_sync(sync, options);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
  };
  says(refusal("smaa", {}), "did you mean 'sma'");
  says(refusal("sma-paper", {.learners = 4, .alpha = 0.7}), "drift apart from 0.6441 on");
  says(refusal("sma-paper", {.learners = 1, .central_momentum = 0}), "nothing");
  says(refusal("sma-paper", {.learners = 4, .alpha = 0.64}), "nothing");
  says(refusal("sma-paper", {.period = 0}), "`sync-period` 0: it must be at least 1");
  says(refusal("sma-paper", {.alpha = -1.0}), "`alpha` -1: it must be above 0");
  says(refusal("sma-paper", {.central_momentum = 1.0}), "`central-momentum` 1");
  says(refusal("sma", {.alpha = 2.0}), "`alpha` 2");
  says(refusal("sma", {.alpha = 1.9}), "nothing");
  says(refusal("sma", {.central_momentum = 0.9}), "has no use for it");
  says(refusal("easgd", {.learners = 2, .alpha = 0.9}), "leave it out for 0.45");
  says(refusal("polyak-ruppert", {.alpha = 2.0}), "`alpha` 2");
  says(refusal("polyak-ruppert", {.alpha = 1.5, .averaging_eta = 0.0}), "nothing");
  says(refusal("polyak-ruppert", {.alpha = 1.5}), "overshoot");
  says(refusal("polyak-ruppert", {.averaging_eta = -1.0}), "`averaging-eta` -1");
  for (const char* sync : {"sma-paper", "easgd", "local-sgd", "slowmo", "ssgd"}) {
    says(refusal(sync, {.averaging_eta = 8.0}), "`averaging-eta`: `sync`");
  }
  says(refusal("ssgd", {.alpha = 0.1}), "has no use for it");
  says(refusal("local-sgd", {.central_momentum = 0.5}), "has no use for it");
  says(refusal("easgd", {.momentum = 0.9}), "choose eamsgd");
  says(refusal("eamsgd", {.momentum = 0.9}), "`nesterov`");
}

}  // namespace
}  // namespace crossbow::testing
