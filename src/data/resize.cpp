#include "data/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace crossbow::data {
namespace {

constexpr int32_t kHalf = 1 << (Taps::kBits - 1);

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> Taps::kBits, 0, 255));
}

/// out[x] = Σ weights[k] · rows[k][x], from position x on.
void add_rows(const uint8_t* rows, int64_t stride, const int16_t* weights, int64_t count, int64_t x,
              int64_t bytes, uint8_t* out) {
  for (; x < bytes; ++x) {
    int32_t sum = kHalf;
    for (int64_t k = 0; k < count; ++k) sum += weights[k] * rows[k * stride + x];
    out[x] = rounded(sum);
  }
}

/// The channels of each new pixel, from pixel x on, into three planes.
void add_columns(const uint8_t* row, const Taps& taps, int64_t x, int64_t plane, uint8_t* out) {
  for (; x < taps.size(); ++x) {
    const uint8_t* in = row + 3 * taps.first(x);
    const int16_t* const weights = taps.weights(x);
    std::array<int32_t, 3> sums{kHalf, kHalf, kHalf};
    for (int64_t k = 0; k < taps.count(); ++k) {
      for (int32_t& sum : sums) sum += weights[k] * *in++;
    }
    for (const int32_t sum : sums) {
      out[x] = rounded(sum);
      out += plane;
    }
    out -= 3 * plane;
  }
}

/// Down, then across: `row` has room for one that is scaled down only, and kBehind bytes.
constexpr int64_t kBehind = 8;

void scale_plain(const PixelView& image, const Taps& down, const Taps& across, uint8_t* row,
                 uint8_t* chw) {
  for (int64_t y = 0; y < down.size(); ++y) {
    add_rows(image.rgb + down.first(y) * image.stride, image.stride, down.weights(y), down.count(),
             0, image.width * 3, row);
    add_columns(row, across, 0, down.size() * across.size(), chw + y * across.size());
  }
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))

/// Two weights side by side, as often as there is room.
AVX2 __m256i pair_of(const int16_t* weights) {
  int32_t pair;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm256_set1_epi32(pair);
}

/// 16 positions at a time, two rows at a time: each product is of a weight and a byte, and adjacent
/// ones are added.
AVX2 int64_t add_rows_avx2(const uint8_t* rows, int64_t stride, const int16_t* weights,
                           int64_t count, int64_t bytes, uint8_t* out) {
  int64_t x = 0;
  for (; x + 16 <= bytes; x += 16) {
    __m256i low = _mm256_set1_epi32(kHalf), high = low;
    for (int64_t k = 0; k < count; k += 2) {
      const uint8_t* const in = rows + k * stride + x;
      const auto* const next = k + 1 < count ? in + stride : in;  // whose weight is 0
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(next));
      const __m256i pair = pair_of(weights + k);
      const __m256i first = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
      const __m256i second = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
      low = _mm256_add_epi32(low, _mm256_madd_epi16(first, pair));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(second, pair));
    }
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_srai_epi32(low, Taps::kBits),
                                                    _mm256_srai_epi32(high, Taps::kBits)),
                                 0xD8);
    const __m128i result =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x), result);
  }
  return x;
}

/// Four pixels at a time, each in a half of a register, two of its taps at a time.
AVX2 int64_t add_columns_avx2(const uint8_t* row, const Taps& taps, int64_t plane, uint8_t* out) {
  // Of two pixels the bytes of each channel side by side, as words.
  const __m256i channels = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const auto load = [&](const uint8_t* in) AVX2 {
    int64_t bytes;
    std::memcpy(&bytes, in, sizeof bytes);
    return _mm_cvtsi64_si128(bytes);
  };
  const auto two = [&](int64_t x) AVX2 {
    const uint8_t* const a = row + 3 * taps.first(x);
    const uint8_t* const b = row + 3 * taps.first(x + 1);
    const int16_t *const of_a = taps.weights(x), *const of_b = taps.weights(x + 1);
    __m256i sum = _mm256_set1_epi32(kHalf);
    for (int64_t k = 0; k < taps.count(); k += 2) {
      const __m256i bytes = _mm256_set_m128i(load(b + 3 * k), load(a + 3 * k));
      const __m256i pairs = _mm256_blend_epi32(pair_of(of_a + k), pair_of(of_b + k), 0xF0);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, channels), pairs));
    }
    return _mm256_srai_epi32(sum, Taps::kBits);
  };
  // Bytes of pixels 0, 2 and 1, 3 follow each other in the halves.
  const __m128i planes = _mm_setr_epi8(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, -1, -1, -1, -1);
  int64_t x = 0;
  for (; x + 4 <= taps.size(); x += 4) {
    const __m256i words = _mm256_packs_epi32(two(x), two(x + 2));
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    const __m128i sorted = _mm_shuffle_epi8(bytes, planes);
    const std::array<int32_t, 3> colours{_mm_extract_epi32(sorted, 0), _mm_extract_epi32(sorted, 1),
                                         _mm_extract_epi32(sorted, 2)};
    for (size_t c = 0; c < 3; ++c) {
      std::memcpy(out + static_cast<int64_t>(c) * plane + x, &colours[c], sizeof colours[c]);
    }
  }
  return x;
}

AVX2 void scale_avx2(const PixelView& image, const Taps& down, const Taps& across, uint8_t* row,
                     uint8_t* chw) {
  const int64_t bytes = image.width * 3, plane = down.size() * across.size();
  for (int64_t y = 0; y < down.size(); ++y) {
    const uint8_t* const rows = image.rgb + down.first(y) * image.stride;
    const int16_t* const weights = down.weights(y);
    const int64_t done = add_rows_avx2(rows, image.stride, weights, down.count(), bytes, row);
    add_rows(rows, image.stride, weights, down.count(), done, bytes, row);
    uint8_t* const out = chw + y * across.size();
    add_columns(row, across, add_columns_avx2(row, across, plane, out), plane, out);
  }
}
#endif

using Scale = void (*)(const PixelView&, const Taps& down, const Taps& across, uint8_t* row,
                       uint8_t* chw);

/// All compute the same bits.
Scale fastest() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return scale_avx2;
#endif
  return scale_plain;
}

}  // namespace

void Taps::set(int64_t in, double begin, double length, int64_t out) {
  const double scale = length / static_cast<double>(out);
  const double radius = std::max(1.0, scale);
  count_ = std::min(in, static_cast<int64_t>(std::ceil(2 * radius)));
  first_.resize(static_cast<size_t>(out));
  const int64_t room = count_ + count_ % 2;
  weights_.assign(static_cast<size_t>(out * room), 0);
  for (int64_t o = 0; o < out; ++o) {
    const double centre = begin + (static_cast<double>(o) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, std::llround(centre - radius));
    const int64_t last =
        std::min({in, static_cast<int64_t>(std::llround(centre + radius)), first + count_});
    shares_.clear();
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      const double distance = std::abs(static_cast<double>(i) + 0.5 - centre) / radius;
      shares_.push_back(std::max(0.0, 1 - distance));
      sum += shares_.back();
    }
    // At the end those that do not count come first, so that none lies outside.
    const int64_t from = std::min(first, in - count_);
    first_[static_cast<size_t>(o)] = from;
    int16_t* const weights = weights_.data() + o * room + (first - from);
    for (size_t i = 0; i < shares_.size(); ++i) {
      weights[i] = static_cast<int16_t>(std::lround(shares_[i] / sum * (1 << kBits)));
    }
  }
}

void Resizer::resize(const PixelView& image, const Taps& down, const Taps& across, uint8_t* chw) {
  static const Scale scale = fastest();
  rows_.resize(std::max(rows_.size(), static_cast<size_t>(image.width * 3 + kBehind)));
  scale(image, down, across, rows_.data(), chw);
}

}  // namespace crossbow::data
