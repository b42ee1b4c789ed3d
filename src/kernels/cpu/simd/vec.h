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
typedef uint16_t U16 __attribute__((vector_size(2 * kLanes)));
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

// Conversions between 16 and 32 bits as instructions: compilers make poor code of the general form.
// With all lanes chosen, maskz_ costs nothing; GCC 12 warns about the plain intrinsics (its bug
// 105593).
inline U32 widen(U16 v) {
#if defined(__AVX512F__)
  return (U32)_mm512_maskz_cvtepu16_epi32(0xFFFF, (__m256i)v);
#elif defined(__AVX2__)
  return (U32)_mm256_cvtepu16_epi32((__m128i)v);
#else
  return __builtin_convertvector(v, U32);
#endif
}
/// The lower halves.
inline U16 truncate(U32 v) {
#if defined(__AVX512F__)
  return (U16)_mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)v);
#else
  return __builtin_convertvector(v, U16);
#endif
}

inline F32 from_bf16(U16 v) {
  return (F32)(widen(v) << 16);
}
/// Rounds to nearest, ties to even. A NaN that arithmetic made stays one.
inline U16 to_bf16(F32 v) {
#if defined(__AVX512BF16__)
  return (U16)_mm512_cvtneps_pbh((__m512)v);
#else
  const U32 u = (U32)v;
  return truncate((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
#endif
}

inline F32 load(const float* p) {
  return load_raw<F32>(p);
}
inline F32 load(const Bf16* p) {
  return from_bf16(load_raw<U16>(p));
}
inline void store(float* p, F32 v) {
  store_raw(p, v);
}
inline void store(Bf16* p, F32 v) {
  store_raw(p, to_bf16(v));
}

// The first `count` < kLanes elements; the others are zero, or not written.
#if defined(__AVX512F__)
inline __mmask16 first(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}
inline F32 load_part(const float* p, int64_t count) {
  return (F32)_mm512_maskz_loadu_ps(first(count), p);
}
inline F32 load_part(const Bf16* p, int64_t count) {
  return from_bf16((U16)_mm256_maskz_loadu_epi16(first(count), p));
}
inline void store_part(float* p, F32 v, int64_t count) {
  _mm512_mask_storeu_ps(p, first(count), (__m512)v);
}
inline void store_part(Bf16* p, F32 v, int64_t count) {
  _mm256_mask_storeu_epi16(p, first(count), (__m256i)to_bf16(v));
}
#else
template <typename T>
inline F32 load_part(const T* p, int64_t count) {
  T part[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = p[i];
  return load(part);
}
template <typename T>
inline void store_part(T* p, F32 v, int64_t count) {
  T part[kLanes];
  store(part, v);
  for (int64_t i = 0; i < count; ++i) p[i] = part[i];
}
#endif

/// v with zeros behind its first `count` elements.
inline F32 first_lanes(F32 v, int64_t count) {
  float part[kLanes];
  store(part, v);
  return load_part(part, count);
}

/// The larger one; b if either is NaN, as the instruction has it.
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
inline F32 abs(F32 x) {
  return (F32)((U32)x & 0x7FFFFFFF);
}

inline float sum(F32 v) {
  float total = 0;
  for (int i = 0; i < kLanes; ++i) total += v[i];
  return total;
}
inline float max(F32 v) {
  float largest = v[0];
  for (int i = 1; i < kLanes; ++i) largest = v[i] > largest ? v[i] : largest;
  return largest;
}

/// y = f(xs…) for n elements.
template <typename F, typename T, typename... X>
inline void map(int64_t n, F f, T* y, const X*... x) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, f(load(x + i)...));
  if (i < n) store_part(y + i, f(load_part(x + i, n - i)...), n - i);
}

/// Σ f(xs…) over n elements. Sums of 512 elements are f32, their sum is double: the error does not
/// grow with n.
template <typename F, typename... X>
inline double reduce(int64_t n, F f, const X*... x) {
  constexpr int64_t kChunk = 512;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = begin + kChunk < n ? begin + kChunk : n;
    F32 even{}, odd{};
    int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      even += f(load(x + i)...);
      odd += f(load(x + i + kLanes)...);
    }
    for (; i + kLanes <= end; i += kLanes) even += f(load(x + i)...);
    if (i < end) odd += first_lanes(f(load_part(x + i, end - i)...), end - i);
    total += sum(even + odd);
  }
  return total;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
