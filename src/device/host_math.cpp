#include "device/host_math.h"

#include <map>

#include "core/error.h"

namespace crossbow {
namespace {

using RuleLoops = std::vector<std::pair<const UpdateRule*, UpdateLoop>>;

/// Stays where it is.
RuleLoops& loops_of(std::string_view device, DType dtype) {
  static std::map<std::pair<std::string, DType>, RuleLoops> all;
  return all[{std::string(device), dtype}];
}

}  // namespace

HostVectorMath::HostVectorMath(std::string_view device, DType dtype)
    : loops_(loops_of(device, dtype)) {
  const RegisterVectorMath registered(device, dtype, *this);
}

void HostVectorMath::update(const UpdateRule& rule, const UpdateStep& step,
                            const UpdateSpans& spans, int64_t n) const {
  UpdateSpans used = spans;
  UpdateStep numbers = step;
  if (step.pull == 0) used.central = nullptr;
  if (!spans.decay) numbers.weight_decay = 0;
  for (const auto& [known, loop] : loops_) {  // of which there are a few
    if (known == &rule) return loop(numbers, used, n);
  }
  fail("this device has no loop for the optimizer '{}'", rule.name);
}

void HostVectorMath::find_clip_scale(double limit, const double* sums, int64_t count,
                                     double* scale) const {
  *scale = clip_scale(limit, {sums, static_cast<size_t>(count)});
}

RegisterUpdate::RegisterUpdate(const UpdateRule& rule, std::string_view device, DType dtype,
                               UpdateLoop loop) {
  RuleLoops& loops = loops_of(device, dtype);
  for (const auto& [known, other] : loops) {
    if (known == &rule) {
      fail("the loop of {} for {} in {} is registered twice", device, rule.name, name_of(dtype));
    }
  }
  loops.emplace_back(&rule, loop);
}

}  // namespace crossbow
