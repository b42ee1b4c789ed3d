#include "kernels/cpu/grouped_weights.h"

#include <algorithm>

#include "core/error.h"

namespace crossbow::onednn {
namespace {

/// Elements of dimension `dim` that lie in inner blocks.
int64_t block_of(const Layout& layout, int dim) {
  int64_t size = 1;
  for (const Layout::Block& block : layout.blocks) {
    if (block.dim == dim) size *= block.size;
  }
  return size;
}

/// Whether the library can convert from and to it.
bool has_name(const Layout& layout) {
  try {
    desc_of(layout);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Of dimensions 0 and 1, groups and the outputs of each, one becomes the outputs of all.
std::optional<Layout> merged(const Layout& l) {
  const bool depthwise = l.padded[1] == 1;
  const int64_t outer = l.padded[1] / block_of(l, 1);
  const bool in_order =
      block_of(l, 0) == 1 && l.padded[1] == l.shape[1] && l.strides[0] == outer * l.strides[1];
  if (!depthwise && !in_order) return {};
  const auto without = [](const Shape& s, int64_t first) { return Shape{first, s[2], s[3], s[4]}; };
  Layout m{without(l.shape, l.shape[0] * l.shape[1]), l.dtype,
           without(l.padded, l.padded[0] * l.padded[1]),
           without(l.strides, depthwise ? l.strides[0] : l.strides[1]), l.blocks};
  for (Layout::Block& block : m.blocks) block.dim = std::max(block.dim - 1, 0);
  return m;
}

}  // namespace

Shape grouped(const Shape& weights, int64_t groups) {
  return {groups, weights[0] / groups, weights[1], weights[2], weights[3]};
}

std::optional<Layout> without_groups(const Desc& desc) {
  const auto layout = merged(layout_of(desc));
  return layout && has_name(*layout) ? layout : std::nullopt;
}

Desc with_groups(const Layout& layout, int64_t groups) {
  return find_desc(grouped(layout.shape, groups), layout.dtype,
                   [&](const Layout& named) { return merged(named) == layout; });
}

}  // namespace crossbow::onednn
