// In which precision a device computes where another one is asked for.
#pragma once

#include <string_view>

#include "core/dtype.h"

namespace crossbow {

/// `asked`, or f32 where that is bf16 and the device has no kernels for it on this processor.
/// Thread-safe.
DType computed_precision(std::string_view device, DType asked);

/// `const RegisterBf16 k{"cpu", has_bf16};`: devices that do not say have kernels for what they are
/// asked for.
struct RegisterBf16 {
  RegisterBf16(std::string_view device, bool (*has_bf16)());
};

}  // namespace crossbow
