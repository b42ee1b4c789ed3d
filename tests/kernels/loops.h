// For tests of vector loops: each instruction set that this machine has, arguments, and how close
// results must be to formulas in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/rng.h"
#include "kernels/cpu/panels.h"

namespace crossbow {

template <typename T>
T stored(float x) {
  if constexpr (std::is_same_v<T, float>)
    return x;
  else
    return bf16(x).bits;
}

template <typename T>
constexpr double kUnit = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-8;  // relative rounding error

/// `computed` is `expected` but for the last bits of f32 arithmetic and the rounding of storage.
template <typename T>
void expect_close(T computed, double expected, double slack = 8) {
  const double error = std::abs(to_float(computed) - expected);
  const double storage = std::is_same_v<T, float> ? 0 : 1.01 * kUnit<T>;
  ASSERT_LE(error, (storage + slack * 0x1p-24) * std::abs(expected) + 1e-30)
      << to_float(computed) << " instead of " << expected;
}

template <typename T>
std::vector<T> random_values(int64_t n, uint32_t stream, float low = -2, float high = 2) {
  Rng rng(7, Purpose::synthetic, stream);
  std::vector<T> values(n);
  for (T& v : values) v = stored<T>(rng.uniform(low, high));
  return values;
}

class LoopsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    loops_ = find_loops(GetParam());
    if (!loops_) GTEST_SKIP() << "this machine has no " << GetParam();
  }
  template <typename T>
  const TypedLoops<T>& typed() const {
    if constexpr (std::is_same_v<T, float>)
      return loops_->f32;
    else
      return loops_->bf16;
  }
  /// Runs f with a float and with a Bf16.
  template <typename F>
  void for_types(F f) {
    f(float{});
    f(Bf16{});
  }
  const Loops* loops_ = nullptr;
};

inline auto instruction_sets() {
  return testing::Values("plain", "avx2", "avx512", "avx512_bf16");
}

inline std::string instruction_set(const testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace crossbow
