// How a tensor's elements lie in memory: strides over outer dimensions plus inner blocks, as in
// oneDNN's blocked formats. nChw16c, for example, has the channel dimension split into an outer one
// and an inner block of 16; the padded lanes of the last block are kept zero.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace crossbow {

/// Plain value. Offsets and strides are in elements.
struct Layout {
  struct Block {
    int dim;
    int64_t size;
    friend bool operator==(const Block&, const Block&) = default;
  };

  Shape shape;                // logical sizes
  DType dtype = DType::f32;   // how elements are stored
  Shape padded;               // sizes rounded up to whole blocks
  Shape strides;              // of each dimension's outer (unblocked) index
  std::vector<Block> blocks;  // innermost last

  static Layout plain(const Shape& shape, DType dtype);          // row-major
  static Layout channels_last(const Shape& shape, DType dtype);  // NCHW shape stored as NHWC
  /// NCHW shape stored as nChw<block>c.
  static Layout channel_blocked(const Shape& shape, DType dtype, int64_t block);

  bool is_plain() const { return *this == plain(shape, dtype); }
  int64_t elements() const { return padded.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }
  Layout with_dtype(DType t) const;
  /// Where the element at `index` (a position in the logical shape) lies.
  int64_t offset(const Shape& index) const;
  /// For example `f32 [16, 3, 32, 32] aBcd16b`.
  std::string str() const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// An activation seen as [batch][channel blocks][positions][channels in a block], which covers
/// plain NCHW and NC (block 1 or C), channels-last (one block of C) and nChw16c. What the vector
/// loops work on. Rank 2 tensors have one position.
struct ChannelView {
  int64_t batch, blocks, positions, block;
  int64_t channels;  // logical; the last block may be padded

  int64_t elements() const { return batch * blocks * positions * block; }
};
/// Throws Error if the layout is none of those.
ChannelView channel_view(const Layout& layout);
/// A tensor of another shape with the same channels, arranged as `like` is: one of those too.
Layout arranged_like(const Layout& like, const Shape& shape, DType dtype);

}  // namespace crossbow
