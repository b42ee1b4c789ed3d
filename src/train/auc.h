// The area under the receiver operating characteristic: how often a sample of class 1 scores higher
// than one of class 0, ties counting half (Fawcett, "An introduction to ROC analysis", 2006).
// Unlike the accuracy it tells nothing of a guess, however rare a class is: that has 0.5.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace crossbow {

/// Of finite scores, one a label, which is 0 or 1; nothing if either class has no sample.
std::optional<double> area_under_curve(std::span<const float> scores,
                                       std::span<const int32_t> labels);

}  // namespace crossbow
