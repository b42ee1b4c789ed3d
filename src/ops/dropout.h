// Dropout, Srivastava et al. 2014, scaled in training.
#pragma once

#include <array>

#include "core/rng.h"
#include "graph/graph.h"

namespace crossbow {

struct DropoutAttributes : Attributes {
  float probability = 0.5f;  // of dropping an element, in [0, 1)
  uint32_t layer = 0;        // distinguishes the dropouts of a net
};

/// y = x·mask/(1 − probability); the second output is the mask, u8 of x's shape. Element e of row
/// r is kept if its random number `dropout_random(...)` is at least probability·2^32.
Tensor dropout(Tensor x, float probability, std::string name = {});
// The gradient's op: dropout_grad(dy, mask) -> dx.

/// The random 32 bits of four neighbouring elements 4·quad … 4·quad+3 of a row: a function of the
/// step's seed, epoch and sample position (row r's is Step::first_sample + r; below 2^48), the
/// layer (below 2^16) and the element alone.
struct DropoutKey {
  uint64_t seed;
  uint32_t epoch;
  uint32_t layer;
};
constexpr std::array<uint32_t, 4> dropout_random(const DropoutKey& key, uint64_t sample,
                                                 uint32_t quad) {
  // The counter Rng has for (epoch, sample), with the quad as its block number and the layer in
  // the top bits of the sample, which no set is large enough to use.
  const std::array<uint32_t, 4> counter{quad, key.epoch, static_cast<uint32_t>(sample),
                                        static_cast<uint32_t>(sample >> 32) | key.layer << 16};
  return philox(counter, Rng::key(key.seed, Purpose::dropout));
}

}  // namespace crossbow
