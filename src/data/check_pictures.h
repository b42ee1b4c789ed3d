// Looking for what cannot be decoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace crossbow::data {

struct Checked {
  int64_t train = 0, test = 0;   // samples that can be used
  std::vector<std::string> bad;  // what is wrong, which names the place, in the order of the set
};

/// Reads and decodes every sample of both parts. `bad` begins with what was left out when the set
/// was opened. Of `options` counts how it reads, not what.
Checked check_samples(const Dataset& dataset, const OpenOptions& options);

}  // namespace crossbow::data
