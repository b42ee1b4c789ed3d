// Dropout: the random numbers of core/rng.h's Philox, a vector of counters at a time.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

constexpr int kQuads = kLanes / 2;  // counters in a vector

/// 64-bit products of the lower halves; compilers multiply all 64 bits, which takes three times as
/// long. For maskz_ see max in vec.h.
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

/// The numbers of kQuads counters, in the order of the kPair elements that they decide.
struct Random {
  U32 v[2];
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
  return {{(U32)__builtin_shufflevector(front, back, 0, 8, 1, 9, 2, 10, 3, 11),
           (U32)__builtin_shufflevector(front, back, 4, 12, 5, 13, 6, 14, 7, 15)}};
#elif defined(__AVX2__)
  return {{(U32)__builtin_shufflevector(front, back, 0, 4, 1, 5),
           (U32)__builtin_shufflevector(front, back, 2, 6, 3, 7)}};
#else
  return {{(U32)__builtin_shufflevector(front, back, 0, 2),
           (U32)__builtin_shufflevector(front, back, 1, 3)}};
#endif
}

U64 first_quads(uint32_t first) {
  U64 quads{};
  for (int i = 0; i < kQuads; ++i) quads[i] = first + static_cast<uint32_t>(i);
  return quads;
}

/// Those of x whose decision in `keep` is not 0, scaled.
template <typename T>
Pair select(Pair x, const U32 (&keep)[2], float scale) {
  const Pair decisions = arranged<T>({(F32)keep[0], (F32)keep[1]});
  Pair y;
  for (int h = 0; h < 2; ++h) y.v[h] = (U32)decisions.v[h] != 0 ? x.v[h] * scale : F32{};
  return y;
}

template <typename T>
void dropout(const DropoutArgs& args, const T* x, T* y, uint8_t* mask, int64_t n) {
  const DropoutArgs a = args;
  U64 quads = first_quads(a.first_quad);
  for (int64_t i = 0; i < n; i += kPair, quads += kQuads) {
    const Random random = philox(quads, a);
    U32 keep[2];
    uint8_t bytes[kPair];
    for (int h = 0; h < 2; ++h) {
      keep[h] = (U32)(random.v[h] >= a.threshold) & 1;
      store_raw(bytes + h * kLanes, __builtin_convertvector(keep[h], U8));
    }
    if (const int64_t left = n - i; left >= kPair) {
      store_pair(y + i, select<T>(load_pair(x + i), keep, a.scale));
      __builtin_memcpy(mask + i, bytes, kPair);
    } else {
      store_part(y + i, select<T>(load_part(x + i, left), keep, a.scale), left);
      __builtin_memcpy(mask + i, bytes, left);
    }
  }
}

template <typename T>
void dropout_grad(const T* dy, const uint8_t* mask, float scale, T* dx, int64_t n) {
  for (int64_t i = 0; i < n; i += kPair) {
    const int64_t left = n - i;
    uint8_t bytes[kPair] = {};
    __builtin_memcpy(bytes, mask + i, left < kPair ? left : kPair);
    U32 keep[2];
    for (int h = 0; h < 2; ++h) {
      keep[h] = __builtin_convertvector(load_raw<U8>(bytes + h * kLanes), U32);
    }
    if (left >= kPair) {
      store_pair(dx + i, select<T>(load_pair(dy + i), keep, scale));
    } else {
      store_part(dx + i, select<T>(load_part(dy + i, left), keep, scale), left);
    }
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
