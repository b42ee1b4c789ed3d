#include "learner/distance.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "device/vector_math.h"

namespace crossbow {

double squared_distance(Device& device, DType dtype, const std::byte* a, const std::byte* b,
                        int64_t n) {
  constexpr int64_t kPiece = 1 << 18;
  const auto pieces = static_cast<size_t>((n + kPiece - 1) / kPiece);
  const auto element = static_cast<int64_t>(size_of(dtype));
  const auto queue = device.make_queue();
  const VectorMath& math = queue->math(dtype);
  const Buffer difference = device.allocate(static_cast<size_t>(std::min(kPiece, n) * element));
  const Buffer sums = device.allocate(pieces * sizeof(double));
  for (size_t i = 0; i < pieces; ++i) {
    const auto first = static_cast<int64_t>(i) * kPiece;
    const int64_t count = std::min(kPiece, n - first);
    const std::array<const void*, 2> terms{a + first * element, b + first * element};
    math.combine(std::array{1.0, -1.0}, terms, difference.data(), count);
    math.squared_norm(difference.data(), count, sums.as<double>() + i);
  }
  std::vector<double> parts(pieces);
  queue->copy(parts.data(), sums.data(), sums.size());
  queue->finish();
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

}  // namespace crossbow
