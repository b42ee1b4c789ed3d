#include "learner/gradient_buckets.h"

#include <algorithm>

namespace crossbow {

/// What is left to be added up when the backward pass is over is the last bucket, so they are small
/// against the whole. But each costs two rounds of messages, for which the thread that makes them
/// may wait for a core that a learner computes on: so they are few, and none so small that this
/// would be most of its time.
std::vector<ParameterLayout::Piece> gradient_buckets(const ParameterLayout& layout) {
  constexpr int64_t kMost = 4, kLeastBytes = 512 << 10;
  const int64_t least = std::max(layout.parameter_elements / kMost,
                                 kLeastBytes / static_cast<int64_t>(size_of(layout.dtype)));
  std::vector<ParameterLayout::Piece> buckets;
  int64_t end = layout.parameter_elements;
  for (auto slot = layout.parameters.rbegin(); slot != layout.parameters.rend(); ++slot) {
    if (slot->offset > 0 && end - slot->offset < least) continue;
    buckets.push_back({slot->offset, end - slot->offset});
    end = slot->offset;
  }
  return buckets;
}

}  // namespace crossbow
