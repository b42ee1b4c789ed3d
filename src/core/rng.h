// Counter-based random numbers: a value is a pure function of (seed, purpose, counter), so it does
// not depend on threads or devices, and a position in the stream is all that a checkpoint stores.
// Philox4x32-10: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace crossbow {

/// What a random number is for; streams of different purposes are independent.
enum class Purpose : uint32_t {
  init,
  shuffle,
  augment,
  dropout,
  synthetic,
  digits,
  gossip,
  pace,
  test_rows,
  window
};

constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

/// A sequential view of one stream: `Rng(seed, Purpose::augment, epoch, sample)`. Cheap to make.
class Rng {
 public:
  Rng(uint64_t seed, Purpose purpose, uint32_t major = 0, uint64_t minor = 0)
      : key_(key(seed, purpose)),
        counter_{0, major, static_cast<uint32_t>(minor), static_cast<uint32_t>(minor >> 32)} {}

  /// The Philox key of all streams of that seed and purpose.
  static constexpr std::array<uint32_t, 2> key(uint64_t seed, Purpose purpose) {
    return {static_cast<uint32_t>(seed),
            static_cast<uint32_t>(seed >> 32) ^ (static_cast<uint32_t>(purpose) * 0x85EBCA6Bu)};
  }

  uint32_t next() {
    if (left_ == 0) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      left_ = 4;
    }
    return block_[4 - left_--];
  }
  /// Uniform in [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Uniform in {0, …, n−1}; n > 0. Multiply-shift: the bias is below n / 2^32.
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((uint64_t{next()} * n) >> 32); }
  /// Standard normal, by Box-Muller.
  float gaussian() {
    const double u = (next() + 1.0) * 0x1p-32, v = next() * 0x1p-32;
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  }

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int left_ = 0;
};

}  // namespace crossbow
