// A rule that needs the norm of each parameter gets whole parameters, wherever an update happens:
// in a learner's program, after it, and in an exchange.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "learner/quadratic.h"
#include "support/lars.h"

namespace crossbow::testing {
namespace {

constexpr int64_t kHidden = 3;
constexpr double kDecay = 0.01;
/// Of W, b and v.
constexpr std::array<int64_t, 3> kSizes{kHidden * kInputs, kHidden, kHidden};

using Vector = std::vector<double>;

double norm(const Vector& x, int64_t first, int64_t n) {
  const auto begin = x.begin() + first;
  return std::sqrt(std::inner_product(begin, begin + n, begin, 0.0));
}

/// One epoch of one set of weights, whose gradient is the mean of k batches'.
Vector model(const QuadraticRun& run, const QuadraticData& data) {
  Vector w(static_cast<size_t>(weights_with(kHidden))), v(w.size());
  for (size_t i = 0; i < w.size(); ++i) w[i] = first_weight(static_cast<int>(i));
  const int64_t k = run.options.learners;
  for (int64_t b = 0; b < kBatches; b += k) {
    Vector g(w.size());
    double all_rows = 0, loss = 0;
    for (int64_t c = b; c < std::min(b + k, kBatches); ++c) {
      const auto rows = static_cast<double>(QuadraticData::rows(c));
      const Vector of_batch = data.gradient(c, w, kHidden, loss);
      for (size_t i = 0; i < g.size(); ++i) g[i] += rows * of_batch[i];
      all_rows += rows;
    }
    for (double& x : g) x /= all_rows;
    if (run.clip_norm > 0) {
      const double scale =
          std::min(1.0, run.clip_norm / (norm(g, 0, static_cast<int64_t>(g.size())) + 1e-6));
      for (double& x : g) x *= scale;
    }
    int64_t first = 0;
    for (const int64_t n : kSizes) {
      const double size = norm(w, first, n);
      const double rate =
          quadratic_rate(b) * kLarsTrust * size / (norm(g, first, n) + kDecay * size + 1e-9);
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(first + n); ++i) {
        v[i] = 0.9 * v[i] + rate * (g[i] + kDecay * w[i]);
        w[i] -= v[i];
      }
      first += n;
    }
  }
  return w;
}

void expect_equations(QuadraticRun run) {
  run.hidden = kHidden;
  run.optimizer = make_lars(kDecay);
  QuadraticData data;
  const Vector expected = model(run, data);
  for (const char* device : {"ref", "cpu", "late", "late-ref"}) {
    SCOPED_TRACE(device);
    run.device = device;
    QuadraticEngine engine(run);
    engine.run(data);
    const std::vector<float> z = engine.z();
    double difference = 0;
    for (size_t i = 0; i < z.size(); ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(z[i]) - expected[i]));
    }
    EXPECT_LT(difference, 1e-6);
  }
}

TEST(ByParameter, InAProgram) {
  expect_equations({.sync = "none"});
}
TEST(ByParameter, AfterTheProgramsOfABatchInParts) {
  expect_equations({.sync = "none", .splits = 2});
}
TEST(ByParameter, AfterAProgramWithAClipNorm) {
  expect_equations({.sync = "none", .clip_norm = 0.5});
}
TEST(ByParameter, InAnExchange) {
  expect_equations({.sync = "ssgd", .options = {.learners = 3}});
}
TEST(ByParameter, InAnExchangeOfDevicesWithAClipNorm) {
  expect_equations({.sync = "ssgd", .options = {.learners = 4}, .clip_norm = 0.5, .devices = 2});
}

}  // namespace
}  // namespace crossbow::testing
