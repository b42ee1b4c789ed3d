#include "kernels/cpu/sgd.h"

#include <omp.h>

#include "device/hogwild_sgd.h"
#include "device/host_math.h"
#include "device/sgd.h"
#include "kernels/cpu/team.h"

namespace crossbow {

SgdArgs sgd_args(const UpdateStep& step, double gradient_scale) {
  return {
      static_cast<float>(step.lr),           static_cast<float>(step.coefficients[kSgdMomentum]),
      static_cast<float>(step.weight_decay), static_cast<float>(gradient_scale),
      static_cast<float>(step.pull),         step.coefficients[kSgdNesterov] != 0};
}

SgdArrays sgd_arrays(const UpdateStep& step, const UpdateSpans& spans) {
  return {static_cast<const float*>(spans.weights), static_cast<const float*>(spans.gradient),
          static_cast<float*>(spans.slots[0]),
          step.pull == 0 ? nullptr : static_cast<const float*>(spans.central),
          static_cast<float*>(spans.next)};
}

HogwildArrays hogwild_arrays(const UpdateStep& step, const UpdateSpans& spans) {
  return {static_cast<const float*>(spans.weights), static_cast<const float*>(spans.gradient),
          static_cast<float*>(spans.slots[0]), static_cast<float*>(spans.next),
          step.coefficients[kHogwildOverwrites] != 0};
}

namespace {

double scale_of(const UpdateSpans& spans) {
  return spans.gradient_scale ? *spans.gradient_scale : 1;
}

void step_of(const UpdateStep& step, const UpdateSpans& spans, int64_t n) {
  const SgdArgs args = sgd_args(step, scale_of(spans));
  const SgdArrays arrays = sgd_arrays(step, spans);
  parallel_ranges(omp_get_max_threads(), n,
                  [&](int64_t begin, int64_t end) { loops().sgd_step(args, arrays, begin, end); });
}

void hogwild_step_of(const UpdateStep& step, const UpdateSpans& spans, int64_t n) {
  const SgdArgs args = sgd_args(step, scale_of(spans));
  const HogwildArrays arrays = hogwild_arrays(step, spans);
  parallel_ranges(omp_get_max_threads(), n, [&](int64_t begin, int64_t end) {
    loops().hogwild_step(args, arrays, begin, end);
  });
}

void take_shared(const UpdateStep&, const UpdateSpans& spans, int64_t n) {
  const auto* const shared = static_cast<const float*>(spans.slots[0]);
  auto* const own = static_cast<float*>(spans.next);
  parallel_ranges(omp_get_max_threads(), n, [&](int64_t begin, int64_t end) {
    loops().take_shared(shared, own, begin, end);
  });
}

const RegisterUpdate kRegistered{kSgd, "cpu", DType::f32, step_of};
const RegisterUpdate kHogwild{kHogwildSgd, "cpu", DType::f32, hogwild_step_of};
const RegisterUpdate kTakes{kTakeShared, "cpu", DType::f32, take_shared};

}  // namespace
}  // namespace crossbow
