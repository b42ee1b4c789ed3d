// Vector math of devices whose memory is the host's: a loop for each rule.
#pragma once

#include <utility>
#include <vector>

#include "device/vector_math.h"

namespace crossbow {

/// As VectorMath::update. `spans.central` is null where there is no pull.
using UpdateLoop = void (*)(const UpdateStep& step, const UpdateSpans& spans, int64_t n);

/// A static object, which registers itself.
class HostVectorMath : public VectorMath {
 public:
  HostVectorMath(std::string_view device, DType dtype);
  void update(const UpdateRule& rule, const UpdateStep& step, const UpdateSpans& spans,
              int64_t n) const final;
  void find_clip_scale(double limit, const double* sums, int64_t count, double* scale) const final;

 private:
  const std::vector<std::pair<const UpdateRule*, UpdateLoop>>& loops_;
};

/// `const RegisterUpdate k{kSgd, "ref", DType::f64, loop};`
struct RegisterUpdate {
  RegisterUpdate(const UpdateRule& rule, std::string_view device, DType dtype, UpdateLoop loop);
};

}  // namespace crossbow
