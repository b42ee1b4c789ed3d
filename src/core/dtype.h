// Element types.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace crossbow {

enum class DType : uint8_t { f32, f64, bf16, i32, u8 };

constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::f32:
      return 4;
    case DType::f64:
      return 8;
    case DType::bf16:
      return 2;
    case DType::i32:
      return 4;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

/// The upper half of a float; conversion from float rounds to nearest, ties to even.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  constexpr bf16(float f) {  // NOLINT: implicit, as between the built-in floating types
#if defined(__CUDA_ARCH__)   // a GPU has an instruction for it
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
#else
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint32_t rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16;
    const bool nan = (u & 0x7FFFFFFF) > 0x7F800000;
    bits = static_cast<uint16_t>(nan ? (u >> 16) | 0x40 : rounded);
#endif
  }
  constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

}  // namespace crossbow
