#include "kernels/precision.h"

#include <map>

namespace crossbow {
namespace {

std::map<std::string_view, bool (*)()>& devices() {
  static std::map<std::string_view, bool (*)()> map;
  return map;
}

}  // namespace

DType computed_precision(std::string_view device, DType asked) {
  const auto it = devices().find(device);
  const bool lacks = asked == DType::bf16 && it != devices().end() && !it->second();
  return lacks ? DType::f32 : asked;
}

RegisterBf16::RegisterBf16(std::string_view device, bool (*has_bf16)()) {
  devices()[device] = has_bf16;
}

}  // namespace crossbow
