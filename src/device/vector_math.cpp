#include "device/vector_math.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"

namespace crossbow {
namespace {

using Key = std::pair<std::string_view, DType>;

std::map<Key, const VectorMath*>& implementations() {
  static std::map<Key, const VectorMath*> map;
  return map;
}

}  // namespace

double clip_scale(double limit, std::span<const double> sums) {
  double squared = 0;
  for (const double sum : sums) squared += sum;
  return std::min(1.0, limit / (std::sqrt(squared) + 1e-6));
}

const VectorMath& vector_math(std::string_view device, DType dtype) {
  const auto it = implementations().find({device, dtype});
  if (it == implementations().end()) {
    fail("the device '{}' has no vector math for {} parameters; use f32", device, name_of(dtype));
  }
  return *it->second;
}

RegisterVectorMath::RegisterVectorMath(std::string_view device, DType dtype,
                                       const VectorMath& math) {
  implementations()[{device, dtype}] = &math;
}

}  // namespace crossbow
