// What shape rules say when inputs do not fit: one sentence with the shapes. The graph puts the
// layer's name before it.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace crossbow {

/// `what` is the input's name in the sentence. Floating point; no dimension is empty.
void expect_numbers(const TensorType& t, std::string_view what);
/// As expect_numbers, and with as many dimensions as `form` shows: "[N, C, H, W]".
void expect_rank(const TensorType& t, int rank, std::string_view what, std::string_view form);
/// Of shape [count]: one value for each of what `of` tells.
void expect_vector(const TensorType& t, int64_t count, std::string_view what, std::string_view of);
/// One value for each channel (dimension 1) of x.
void expect_per_channel(const TensorType& t, const TensorType& x, std::string_view what);
void expect_same_shape(const TensorType& a, const TensorType& b, std::string_view a_name,
                       std::string_view b_name);
/// int32 [N], one for each row of `rows`.
void expect_labels(const TensorType& labels, const TensorType& rows);

}  // namespace crossbow
