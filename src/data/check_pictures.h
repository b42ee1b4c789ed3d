// Looking for what cannot be decoded.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"

namespace crossbow::data {

/// Reads and decodes every sample of both parts. What is wrong with each that cannot be, which
/// names it, in the order of the set. Of `options` counts how it reads, not what.
std::vector<std::string> check_samples(const Dataset& dataset, const OpenOptions& options);

}  // namespace crossbow::data
