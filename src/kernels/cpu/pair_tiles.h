// Weights as bf16 products read them. oneDNN's conversion makes an element a nanosecond, and a step
// converts each weight twice, however small its batch is.
#pragma once

#include <optional>

#include "kernels/kernel.h"

namespace crossbow {

/// From f32 in tiles of 16 rows and a multiple of 16 columns to bf16 in blocks whose innermost are
/// pairs along one side of the tiles, then a multiple of 16 along the other; nothing if the layouts
/// are not such.
std::optional<PreparedKernel> prepare_pairs(const Layout& from, const Layout& to, int threads);

}  // namespace crossbow
