#include "device/vector_math.h"

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
