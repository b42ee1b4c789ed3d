// Random nets: what a seed makes of every op that models use.
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace crossbow::testing {

struct RandomNet {
  Graph graph;       // forward, with the output "loss"
  std::string text;  // a line for each layer
};

/// Some 25 layers over small images of odd sizes, sizes of 1 among them: convolutions of all kinds,
/// pooling, batch norm, activations, residual additions, concatenations, dense layers and a loss.
/// The same net for the same seed, always.
RandomNet random_net(uint64_t seed);

}  // namespace crossbow::testing
