#include "kernels/cuda/vector_math.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "device/hogwild_sgd.h"
#include "device/sgd.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Where the numbers of an update are.
struct Numbers {
  UpdateStep given;
  const UpdateStep* in_block;    // where a program's step lies; null: given
  const double* gradient_scale;  // null: 1
  bool decay;

  CROSSBOW_GPU const UpdateStep& step() const { return in_block ? *in_block : given; }
  CROSSBOW_GPU float scale() const {
    return gradient_scale ? static_cast<float>(*gradient_scale) : 1;
  }
  CROSSBOW_GPU float weight_decay() const {
    return decay ? static_cast<float>(step().weight_decay) : 0;
  }
};

/// The equation is in device/sgd.h.
struct SgdStep {
  Numbers numbers;
  const float *w, *g, *z;  // z may be null
  float *v, *next;         // v may be null

  CROSSBOW_GPU void operator()(int64_t i) const {
    const UpdateStep& step = numbers.step();
    const auto momentum = static_cast<float>(step.coefficients[kSgdMomentum]);
    const float d = numbers.scale() * g[i] + numbers.weight_decay() * w[i];
    float direction = d;
    if (v) {
      v[i] = momentum * v[i] + d;
      direction = step.coefficients[kSgdNesterov] != 0 ? d + momentum * v[i] : v[i];
    }
    const bool pulled = z && step.pull != 0;
    next[i] = w[i] - static_cast<float>(step.lr) * direction -
              (pulled ? static_cast<float>(step.pull) * (w[i] - z[i]) : 0);
  }
};

/// The equation is in device/hogwild_sgd.h. Of the shared weights each is read and written as a
/// whole, once, whatever other streams do with them meanwhile.
struct HogwildStep {
  Numbers numbers;
  const float *w, *g;
  volatile float* shared;
  float* next;  // may be null

  CROSSBOW_GPU void operator()(int64_t i) const {
    const UpdateStep& step = numbers.step();
    const bool overwrites = step.coefficients[kHogwildOverwrites] != 0;
    const float before = overwrites ? w[i] : shared[i];
    const float d = numbers.scale() * g[i] + numbers.weight_decay() * w[i];
    const float after = before - static_cast<float>(step.lr) * d;
    shared[i] = after;
    if (next) next[i] = after;
  }
};

struct TakeShared {
  const volatile float* shared;
  float* own;

  CROSSBOW_GPU void operator()(int64_t i) const { own[i] = shared[i]; }
};

template <size_t most>
struct Combine {
  int count;
  float* out;
  float factors[most];
  const float* terms[most];

  CROSSBOW_GPU void operator()(int64_t i) const {
    float sum = 0;
    for (int t = 0; t < count; ++t) sum += factors[t] * terms[t][i];
    out[i] = sum;
  }
};

template <size_t most>
void combine_up_to(std::span<const double> factors, std::span<const void* const> terms, void* out,
                   int64_t n) {
  Combine<most> combine{static_cast<int>(terms.size()), as<float>(out), {}, {}};
  for (size_t t = 0; t < terms.size(); ++t) {
    combine.factors[t] = static_cast<float>(factors[t]);
    combine.terms[t] = static_cast<const float*>(terms[t]);
  }
  for_each(n, combine);
}

/// By one block.
struct SquaredNorm {
  const float* x;
  int64_t n;
  double* sum;

  CROSSBOW_GPU void operator()(const Thread& t) const {
    auto* const sums = t.shared<double>();
    constexpr int kAtOnce = 8;  // loads under way
    double mine[kAtOnce] = {};
    int64_t i = t.rank();
    for (; i + (kAtOnce - 1) * t.threads() < n; i += kAtOnce * t.threads()) {
      for (int j = 0; j < kAtOnce; ++j) add_square(x[i + j * t.threads()], mine[j]);
    }
    for (; i < n; i += t.threads()) add_square(x[i], mine[0]);
    for (int j = 1; j < kAtOnce; ++j) mine[0] += mine[j];
    sums[t.rank()] = mine[0];
    for (int half = t.threads() / 2; half > 0; half /= 2) {
      t.sync();
      if (t.rank() < half) sums[t.rank()] += sums[t.rank() + half];
    }
    if (t.rank() == 0) *sum = sums[0];
  }
  static CROSSBOW_GPU void add_square(float x, double& sum) { sum += static_cast<double>(x) * x; }
};

/// As clip_scale.
struct ClipScale {
  double limit;
  const double* sums;
  int64_t count;
  double* scale;

  CROSSBOW_GPU void operator()(int64_t) const {
    double squared = 0;
    for (int64_t i = 0; i < count; ++i) squared += sums[i];
    *scale = fmin(1.0, limit / (sqrt(squared) + 1e-6));
  }
};

}  // namespace

void GridMath::update(const UpdateRule& rule, const UpdateStep& step, const UpdateSpans& spans,
                      int64_t n) const {
  const auto in = [](const void* p) { return static_cast<const float*>(p); };
  const Numbers numbers{steps_in_blocks_ ? UpdateStep{} : step, steps_in_blocks_ ? &step : nullptr,
                        spans.gradient_scale, spans.decay};
  const float *const w = in(spans.weights), *const g = in(spans.gradient);
  auto *const slot = as<float>(spans.slots[0]), *const next = as<float>(spans.next);
  if (&rule == &kSgd) {
    for_each(n, SgdStep{numbers, w, g, in(spans.central), slot, next});
  } else if (&rule == &kHogwildSgd) {
    for_each(n, HogwildStep{numbers, w, g, slot, next});
  } else if (&rule == &kTakeShared) {
    for_each(n, TakeShared{slot, next});
  } else {
    fail("{} has no loop for the optimizer '{}'", kDevice, rule.name);
  }
}

/// More than fit into a launch's arguments are added up in several.
void GridMath::combine(std::span<const double> factors, std::span<const void* const> terms,
                       void* out, int64_t n) const {
  constexpr size_t kFew = 8, kSome = 64, kMost = 1024;
  if (terms.size() <= kFew) return combine_up_to<kFew>(factors, terms, out, n);
  if (terms.size() <= kSome) return combine_up_to<kSome>(factors, terms, out, n);
  const size_t first = std::min(terms.size(), kMost);
  combine_up_to<kMost>(factors.first(first), terms.first(first), out, n);
  if (first == terms.size()) return;
  std::vector<double> other_factors{1};
  std::vector<const void*> others{out};
  other_factors.insert(other_factors.end(), factors.begin() + first, factors.end());
  others.insert(others.end(), terms.begin() + first, terms.end());
  combine(other_factors, others, out, n);
}

void GridMath::squared_norm(const void* x, int64_t n, double* sum) const {
  launch(Grid{1, kMostThreads, kMostThreads * sizeof(double)},
         SquaredNorm{static_cast<const float*>(x), n, sum});
}

void GridMath::find_clip_scale(double limit, const double* sums, int64_t count,
                               double* scale) const {
  for_each(1, ClipScale{limit, sums, count, scale});
}

namespace {

const GridMath kOfPrograms{/*steps_in_blocks=*/true}, kOfQueues{/*steps_in_blocks=*/false};
const RegisterVectorMath kF32{kDevice, DType::f32, kOfPrograms};
const RegisterVectorMath kQueueF32{std::string(kDevice) + " queue", DType::f32, kOfQueues};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
