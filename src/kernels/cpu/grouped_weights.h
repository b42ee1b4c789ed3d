// Weights of grouped convolutions. oneDNN gives the groups a dimension of their own,
// [G, O/G, C/G, KH, KW]; graph and replica have [O, C/G, KH, KW].
#pragma once

#include <optional>

#include "kernels/cpu/onednn.h"

namespace crossbow::onednn {

Shape grouped(const Shape& weights, int64_t groups);
/// How the weights that `desc` describes lie, without the dimension of the groups: such as
/// Abcd16a for a depthwise Goihw16g. Absent where the memory does not look so, because outputs
/// are padded within their groups.
std::optional<Layout> without_groups(const Desc& desc);
/// The other way round; empty where oneDNN has no name for it.
Desc with_groups(const Layout& layout, int64_t groups);

}  // namespace crossbow::onednn
