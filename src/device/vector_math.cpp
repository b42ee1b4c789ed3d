#include "device/vector_math.h"

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
