// Data sets that a program has in its own memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "data/dataset.h"

namespace crossbow::data {

/// The name that such sets have in options and checkpoints, where no name can open them.
constexpr std::string_view kMemory = "memory";

/// Samples of one part of a set.
struct Samples {
  std::span<const float> values;    // [samples, channels, height, width], row-major, as the net is
                                    // to see them: nothing normalises them
  std::span<const int32_t> labels;  // [samples], in [0, classes)
};

/// A set that holds copies of the samples. Of `info`, `image` and `classes` must be set: the shape
/// of a sample, with any number of channels ([features, 1, 1] for a row of features), and the
/// number of classes. Without names the classes are called "0", "1" and so on. `normalisation`
/// says how pixels became the values, which `crossbow predict` needs; training does not use it.
/// Throws UsageError, naming both sizes, for samples that do not fit.
std::shared_ptr<const Dataset> from_memory(Info info, const Samples& train, const Samples& test);

}  // namespace crossbow::data
