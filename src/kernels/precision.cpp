#include "kernels/precision.h"

#include "core/registry.h"

namespace crossbow {
namespace {

using HasBf16 = bool (*)();

Registry<HasBf16>& registry() {
  static Registry<HasBf16> devices("test for bf16 of the device");
  return devices;
}

}  // namespace

DType computed_precision(std::string_view device, DType asked) {
  const HasBf16* const has = registry().find(device);
  const bool lacks = asked == DType::bf16 && has && !(*has)();
  return lacks ? DType::f32 : asked;
}

RegisterBf16::RegisterBf16(std::string_view device, bool (*has_bf16)()) {
  registry().add(device, has_bf16);
}

}  // namespace crossbow
