// Dropout: the random numbers of core/rng.h's Philox, a vector of counters at a time.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

constexpr int kQuads = kLanes / 2;  // counters in a vector

/// 64-bit products of the lower halves; compilers multiply all 64 bits, which takes three times as
/// long.
U64 multiply_low(U64 a, U64 b) {
#if defined(__AVX512F__)
  return (U64)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (U64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (U64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
#endif
}

/// The numbers of kQuads counters, in the order of the elements that they decide.
struct Random {
  U32 first, second;
};

/// Each 64-bit lane of `quads` holds the first counter word of one block of four numbers. Upper
/// halves of lanes gather rubbish that no multiplication reads.
Random philox(U64 quads, const DropoutArgs& a) {
  U64 c0 = quads, c1 = U64{} + a.counter[0], c2 = U64{} + a.counter[1], c3 = U64{} + a.counter[2];
  uint32_t k0 = a.key[0], k1 = a.key[1];
  for (int round = 0; round < 10; ++round) {
    const U64 p0 = multiply_low(c0, U64{} + 0xD2511F53u);
    const U64 p1 = multiply_low(c2, U64{} + 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ uint64_t { k0 };
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ uint64_t { k1 };
    c3 = p0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  const U64 front = (c0 & 0xFFFFFFFF) | (c1 << 32), back = (c2 & 0xFFFFFFFF) | (c3 << 32);
#if defined(__AVX512F__)
  return {(U32)__builtin_shufflevector(front, back, 0, 8, 1, 9, 2, 10, 3, 11),
          (U32)__builtin_shufflevector(front, back, 4, 12, 5, 13, 6, 14, 7, 15)};
#elif defined(__AVX2__)
  return {(U32)__builtin_shufflevector(front, back, 0, 4, 1, 5),
          (U32)__builtin_shufflevector(front, back, 2, 6, 3, 7)};
#else
  return {(U32)__builtin_shufflevector(front, back, 0, 2),
          (U32)__builtin_shufflevector(front, back, 1, 3)};
#endif
}

U64 first_quads(uint32_t first) {
  U64 quads{};
  for (int i = 0; i < kQuads; ++i) quads[i] = first + static_cast<uint32_t>(i);
  return quads;
}

template <typename T>
void dropout(const DropoutArgs& a, const T* x, T* y, uint8_t* mask, int64_t n) {
  U64 quads = first_quads(a.first_quad);
  const auto kept = [&](U32 random) { return (U32)(random >= a.threshold) & 1; };
  const auto apply = [&](F32 v, U32 keep) { return keep != 0 ? v * a.scale : F32{}; };
  const auto bytes = [](U32 keep) { return __builtin_convertvector(keep, U8); };
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes, quads += kQuads) {
    const Random random = philox(quads, a);
    const U32 first = kept(random.first), second = kept(random.second);
    store(y + i, apply(load(x + i), first));
    store(y + i + kLanes, apply(load(x + i + kLanes), second));
    store_raw(mask + i, bytes(first));
    store_raw(mask + i + kLanes, bytes(second));
  }
  if (i == n) return;
  const Random random = philox(quads, a);
  const U32 both[2] = {random.first, random.second};
  for (const U32 words : both) {
    const int64_t left = n - i < kLanes ? n - i : kLanes;
    const U32 keep = kept(words);
    store_part(y + i, apply(load_part(x + i, left), keep), left);
    for (int64_t l = 0; l < left; ++l) mask[i + l] = static_cast<uint8_t>(keep[l]);
    i += left;
  }
}

template <typename T>
void dropout_grad(const T* dy, const uint8_t* mask, float scale, T* dx, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const I32 keep = __builtin_convertvector(load_raw<U8>(mask + i), I32);
    store(dx + i, keep != 0 ? load(dy + i) * scale : F32{});
  }
  if (const int64_t left = n - i; left > 0) {
    I32 keep{};
    for (int64_t l = 0; l < left; ++l) keep[l] = mask[i + l];
    store_part(dx + i, keep != 0 ? load_part(dy + i, left) * scale : F32{}, left);
  }
}

template <typename T>
void fill(TypedLoops<T>& t) {
  t.dropout = dropout<T>;
  t.dropout_grad = dropout_grad<T>;
}

}  // namespace

void add_dropout(Loops& loops) {
  fill(loops.f32);
  fill(loops.bf16);
}

}  // namespace crossbow::simd::CROSSBOW_ISA
