// Vectors as wide as the instruction set that this file is compiled for, in the vector extension
// that GCC and Clang share: arithmetic, comparison and `mask ? a : b` work element by element.
// Everything is in a namespace of the instruction set's own; see loops.h for why this folder must
// not use inline functions from elsewhere.
#pragma once

#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/cpu/loops.h"

namespace crossbow::simd::CROSSBOW_ISA {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float F32 __attribute__((vector_size(4 * kLanes)));
typedef int32_t I32 __attribute__((vector_size(4 * kLanes)));
typedef uint32_t U32 __attribute__((vector_size(4 * kLanes)));
typedef uint64_t U64 __attribute__((vector_size(4 * kLanes)));
typedef uint8_t U8 __attribute__((vector_size(kLanes)));

/// V at any address.
template <typename V, typename T>
inline V load_raw(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <typename V, typename T>
inline void store_raw(T* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

inline F32 broadcast(float x) {
  return x - F32{};
}

/// Two vectors, the unit in which activations are read and written. Neighbouring floats lie side by
/// side in them; of bf16, which come as the halves of 32 bits, v[0][l] and v[1][l] are neighbours,
/// since taking the halves apart is cheaper than moving them to where they would belong.
struct Pair {
  F32 v[2];
};
inline constexpr int kPair = 2 * kLanes;

/// The elements 0, 2, 4… and 1, 3, 5… of a pair of neighbouring floats.
inline Pair split(Pair p) {
  const auto [a, b] = p.v;
#if defined(__AVX512F__)
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)};
#elif defined(__AVX2__)
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
#else
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7)};
#endif
}
/// Undoes split.
inline Pair join(Pair p) {
  const auto [a, b] = p.v;
#if defined(__AVX512F__)
  return {
      __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
      __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
#elif defined(__AVX2__)
  return {__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
          __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)};
#else
  return {__builtin_shufflevector(a, b, 0, 4, 1, 5), __builtin_shufflevector(a, b, 2, 6, 3, 7)};
#endif
}

/// Rounds to bf16, nearest, ties to even, in the upper half. A NaN that arithmetic made stays one.
inline U32 rounded(F32 v) {
  const U32 u = (U32)v;
  return u + 0x7FFF + ((u >> 16) & 1);
}

inline F32 load(const float* p) {
  return load_raw<F32>(p);
}
inline void store(float* p, F32 v) {
  store_raw(p, v);
}

inline Pair load_pair(const float* p) {
  return {load(p), load(p + kLanes)};
}
inline Pair load_pair(const Bf16* p) {
  const U32 u = load_raw<U32>(p);
  return {(F32)(u << 16), (F32)(u & 0xFFFF0000)};
}
inline void store_pair(float* p, Pair v) {
  store(p, v.v[0]);
  store(p + kLanes, v.v[1]);
}
inline void store_pair(Bf16* p, Pair v) {
#if defined(__AVX512BF16__)
  // One after the other, so they must still be interleaved.
  const auto halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)v.v[1], (__m512)v.v[0]);
  const U32 kOrder = {0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005,
                      0x160006, 0x170007, 0x180008, 0x190009, 0x1A000A, 0x1B000B,
                      0x1C000C, 0x1D000D, 0x1E000E, 0x1F000F};
  store_raw(p, (U32)_mm512_permutexvar_epi16((__m512i)kOrder, halves));
#else
  store_raw(p, (rounded(v.v[0]) >> 16) | (rounded(v.v[1]) & 0xFFFF0000));
#endif
}

/// Two vectors of neighbours as load_pair(const T*) would have put them, and back.
template <typename T>
inline Pair arranged(Pair neighbours) {
  return sizeof(T) == sizeof(float) ? neighbours : split(neighbours);
}
template <typename T>
inline Pair in_order(Pair arranged) {
  return sizeof(T) == sizeof(float) ? arranged : join(arranged);
}

/// The first `count` elements, where `count` may be less than a pair; the others are zero.
template <typename T>
inline Pair load_part(const T* p, int64_t count) {
  T part[kPair] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = p[i];
  return load_pair(part);
}
template <typename T>
inline void store_part(T* p, Pair v, int64_t count) {
  T part[kPair];
  store_pair(part, v);
  for (int64_t i = 0; i < count; ++i) p[i] = part[i];
}

/// a · b + c, rounded once where the instruction set can: for arithmetic that must have the same
/// bits in several loops, since whether a compiler fuses `a * b + c` depends on what is around it.
inline F32 fma(F32 a, F32 b, F32 c) {
#if defined(__AVX512F__)
  return (F32)_mm512_maskz_fmadd_ps(0xFFFF, (__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (F32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

inline float fma(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// The larger one; b if either is NaN, as the instruction has it. The maskz_ forms with all lanes
/// cost nothing and spare GCC 12's false warnings about plain intrinsics (its bug 105593).
inline F32 max(F32 a, F32 b) {
#if defined(__AVX512F__)
  return (F32)_mm512_maskz_max_ps(0xFFFF, (__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (F32)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
  return (F32)_mm_max_ps((__m128)a, (__m128)b);
#else
  return a > b ? a : b;
#endif
}
/// NaN goes through, unlike with the usual x > 0 ? x : 0.
inline F32 relu(F32 x) {
  return max(F32{}, x);
}
inline F32 relu6(F32 x) {
  const F32 y = relu(x);
  return y > 6 ? broadcast(6) : y;
}
inline F32 abs(F32 x) {
  return (F32)((U32)x & 0x7FFFFFFF);
}

inline float sum(F32 v) {
  float lanes[kLanes];
  store(lanes, v);
  typedef float F32x4 __attribute__((vector_size(16)));
  F32x4 quarter = load_raw<F32x4>(lanes);
  for (int i = 4; i < kLanes; i += 4) quarter += load_raw<F32x4>(lanes + i);
  return (quarter[0] + quarter[1]) + (quarter[2] + quarter[3]);
}
inline float max(F32 v) {
  float largest = v[0];
  for (int i = 1; i < kLanes; ++i) largest = v[i] > largest ? v[i] : largest;
  return largest;
}

/// y = f(xs…) for n elements.
template <typename F, typename T, typename... X>
inline void map(int64_t n, F f, T* y, const X*... x) {
  const auto both = [&](auto... pairs) { return Pair{f(pairs.v[0]...), f(pairs.v[1]...)}; };
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) store_pair(y + i, both(load_pair(x + i)...));
  if (i < n) store_part(y + i, both(load_part(x + i, n - i)...), n - i);
}

/// Calls `f(i, load, store)` for the pairs from `begin` to `end`, then for what is left of one.
template <typename F>
inline void for_each_pair(int64_t begin, int64_t end, F f) {
  int64_t i = begin;
  for (; i + kPair <= end; i += kPair) {
    f(
        i, [](const float* p) { return load_pair(p); }, [](float* p, Pair x) { store_pair(p, x); });
  }
  if (const int64_t left = end - i; left > 0) {
    f(
        i, [=](const float* p) { return load_part(p, left); },
        [=](float* p, Pair x) { store_part(p, x, left); });
  }
}

/// Σ f(xs…) over n floats. Sums of 512 elements are f32, their sum is double: the error does not
/// grow with n.
template <typename F, typename... X>
inline double reduce(int64_t n, F f, const X*... x) {
  constexpr int64_t kChunk = 512;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = begin + kChunk < n ? begin + kChunk : n;
    F32 even{}, odd{};
    int64_t i = begin;
    for (; i + kPair <= end; i += kPair) {
      even += f(load(x + i)...);
      odd += f(load(x + i + kLanes)...);
    }
    float rest[kPair] = {};
    if (i < end) map(end - i, f, rest, x + i...);
    total += sum(even + odd + load(rest) + load(rest + kLanes));
  }
  return total;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
