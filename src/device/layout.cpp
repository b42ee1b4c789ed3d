#include "device/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace crossbow {
namespace {

Layout dense_in_order(const Shape& shape, DType dtype, std::span<const int> order,
                      std::vector<Layout::Block> blocks) {
  Layout layout{shape, dtype, shape, shape, std::move(blocks)};
  Shape outer = shape;
  int64_t stride = 1;
  for (const auto& [dim, size] : layout.blocks) {
    outer[dim] = (outer[dim] + size - 1) / size;
    layout.padded[dim] = outer[dim] * size;
    stride *= size;
  }
  for (size_t i = order.size(); i-- > 0;) {
    layout.strides[order[i]] = stride;
    stride *= outer[order[i]];
  }
  return layout;
}

std::vector<int> dimensions(const Shape& shape) {
  std::vector<int> all(static_cast<size_t>(shape.rank()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Layout Layout::plain(const Shape& shape, DType dtype) {
  return dense_in_order(shape, dtype, dimensions(shape), {});
}

Layout Layout::channels_last(const Shape& shape, DType dtype) {
  std::vector<int> order = dimensions(shape);
  if (order.size() > 2) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return dense_in_order(shape, dtype, order, {});
}

Layout Layout::channel_blocked(const Shape& shape, DType dtype, int64_t block) {
  return dense_in_order(shape, dtype, std::array{0, 1, 2, 3}, {{1, block}});
}

Layout Layout::with_dtype(DType t) const {
  Layout result = *this;
  result.dtype = t;
  return result;
}

int64_t Layout::offset(const Shape& index) const {
  int64_t offset = 0;
  Shape outer = index;
  int64_t stride = 1;
  for (size_t i = blocks.size(); i-- > 0;) {
    const auto [dim, size] = blocks[i];
    offset += (outer[dim] % size) * stride;
    outer[dim] /= size;
    stride *= size;
  }
  for (int d = 0; d < shape.rank(); ++d) offset += outer[d] * strides[d];
  return offset;
}

std::string Layout::str() const {
  std::vector<int> order = dimensions(shape);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return strides[a] > strides[b]; });
  std::string tag;
  for (int d : order) {
    const bool blocked =
        std::any_of(blocks.begin(), blocks.end(), [&](auto& b) { return b.dim == d; });
    tag += static_cast<char>((blocked ? 'A' : 'a') + d);
  }
  for (const auto& [dim, size] : blocks)
    tag += fmt::format("{}{}", size, static_cast<char>('a' + dim));
  return fmt::format("{} {} {}", name_of(dtype), shape.str(), tag);
}

ChannelView channel_view(const Layout& layout) {
  const Shape& s = layout.shape;
  if (s.rank() < 2) fail("the layout {} has no channels", layout.str());
  const int64_t positions = s.elements_from(2);
  if (layout.is_plain()) {
    if (positions == 1) return {s[0], 1, 1, s[1], s[1]};
    return {s[0], s[1], positions, 1, s[1]};
  }
  if (s.rank() == 4) {
    if (layout == Layout::channels_last(s, layout.dtype)) return {s[0], 1, positions, s[1], s[1]};
    if (layout.blocks.size() == 1) {
      const int64_t block = layout.blocks[0].size;
      if (layout == Layout::channel_blocked(s, layout.dtype, block)) {
        return {s[0], layout.padded[1] / block, positions, block, s[1]};
      }
    }
  }
  fail("the layout {} is none that channel-wise loops understand", layout.str());
}

Layout arranged_like(const Layout& like, const Shape& shape, DType dtype) {
  if (like.is_plain()) return Layout::plain(shape, dtype);
  const ChannelView view = channel_view(like);
  const bool channels_last = like.blocks.empty();
  return channels_last ? Layout::channels_last(shape, dtype)
                       : Layout::channel_blocked(shape, dtype, view.block);
}

}  // namespace crossbow
