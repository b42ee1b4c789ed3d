// Exponential, logistic function, hyperbolic tangent, normal distribution and log(1 + x) of
// vectors, each within about 2e-7 of the true value, relatively, unless its comment says otherwise.
#pragma once

#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {

/// 2^n for n in [-126, 127].
inline F32 power_of_two(I32 n) {
  return (F32)((n + 127) << 23);
}

/// 0 below -87.3 (where the result would be subnormal), infinity above 88.7; NaN stays NaN.
/// x = n·log 2 + r with |r| <= log(2)/2; log 2 is split in two so that n·(its upper part) is exact.
/// The polynomial is Cephes' for e^r.
inline F32 exp(F32 x) {
  constexpr float kLowest = -87.3365f, kHighest = 88.7228f;
  F32 inside = x < kLowest ? broadcast(kLowest) : x;
  inside = inside > kHighest ? broadcast(kHighest) : inside;
  const F32 scaled = inside * 1.44269504f;
  const F32 half = (F32)(((U32)scaled & 0x80000000u) | (U32)broadcast(0.5f));
  // NaN must not be converted to an integer, which would be undefined.
  const F32 rounded = x == x ? scaled + half : F32{};  // NOLINT: false for NaN
  const I32 n = __builtin_convertvector(rounded, I32);
  const F32 nf = __builtin_convertvector(n, F32);
  const F32 r = (inside - nf * 0.693359375f) + nf * 2.12194440e-4f;
  F32 p = broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const F32 e = (p * r * r + r) + 1;
  // In two factors, for 2^128 is no float.
  const I32 first = n >> 1;
  F32 y = e * power_of_two(first) * power_of_two(n - first);
  y = x < kLowest ? F32{} : y;
  return x > kHighest ? broadcast(__builtin_inff()) : y;
}

inline F32 sigmoid(F32 x) {
  return 1 / (1 + exp(-x));
}

/// Near zero Cephes' odd polynomial, for 1 − 2/(e^2x + 1) cancels there.
inline F32 tanh(F32 x) {
  const F32 a = abs(x), z = x * x;
  F32 p = broadcast(-5.70498872745e-3f);
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const F32 small = p * z * x + x;
  const F32 large = 1 - 2 / (exp(2 * a) + 1);
  const F32 signed_large = (F32)((U32)large | ((U32)x & 0x80000000u));
  return a < 0.625f ? small : signed_large;
}

/// The normal distribution Φ at x, and e^(−x²/2), which is √(2π) times its density.
struct Normal {
  F32 below, bell;
};
/// Φ(−|x|) = e^(−x²/2)·t·Q(t) with t = 1/(1 + 0.35·|x|). Q takes the true values in the nine
/// Chebyshev points of |x| <= 13.3, where it is within 4e-8, relatively; beyond, the exponential is
/// 0. The exponential's argument is rounded, so that Φ(−8) has a relative error of 1e-6.
inline Normal normal(F32 x) {
  const F32 bell = exp(-0.5f * x * x);
  const F32 t = 1 / (1 + 0.35f * abs(x));
  F32 q = broadcast(-2.95765433e-2f);
  q = q * t + 1.46069033e-1f;
  q = q * t - 2.60032900e-1f;
  q = q * t + 1.64063495e-1f;
  q = q * t - 2.64226950e-2f;
  q = q * t + 1.06876462e-1f;
  q = q * t + 1.19498141e-1f;
  q = q * t + 1.39905974e-1f;
  q = q * t + 1.39619016e-1f;
  const F32 tail = bell * t * q;
  return {x > 0 ? 1 - tail : tail, bell};
}

/// For x in [0, 1]: log(1 + x) = 2·artanh(s), s = x/(2 + x) <= 1/3, by its series.
inline F32 log1p(F32 x) {
  const F32 s = x / (2 + x), z = s * s;
  F32 p = z * (1.0f / 15) + 1.0f / 13;
  p = p * z + 1.0f / 11;
  p = p * z + 1.0f / 9;
  p = p * z + 1.0f / 7;
  p = p * z + 1.0f / 5;
  p = p * z + 1.0f / 3;
  return 2 * (s + s * z * p);
}

}  // namespace crossbow::simd::CROSSBOW_ISA
