#include "device/vector_math.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/registry.h"

namespace crossbow {
namespace {

Registry<const VectorMath*>& registry() {
  static Registry<const VectorMath*> implementations("vector math");
  return implementations;
}

std::string key(std::string_view device, DType dtype) {
  return fmt::format("{} in {}", device, name_of(dtype));
}

}  // namespace

double clip_scale(double limit, std::span<const double> sums) {
  double squared = 0;
  for (const double sum : sums) squared += sum;
  return std::min(1.0, limit / (std::sqrt(squared) + 1e-6));
}

const VectorMath& vector_math(std::string_view device, DType dtype) {
  const auto* const math = registry().find(key(device, dtype));
  if (!math) {
    fail("the device '{}' has no vector math for {} parameters; use f32", device, name_of(dtype));
  }
  return **math;
}

RegisterVectorMath::RegisterVectorMath(std::string_view device, DType dtype,
                                       const VectorMath& math) {
  registry().add(key(device, dtype), &math);
}

}  // namespace crossbow
