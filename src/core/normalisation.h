// How pixels become what a network sees.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace crossbow {

/// (pixel / 255 − mean) / std, per channel. The entries past the number of channels are unused.
struct Normalisation {
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> std{1, 1, 1};

  /// Computed in double and rounded once, so that the host's tables and a GPU have the same bits.
  constexpr float of(uint8_t pixel, size_t channel) const {
    return static_cast<float>((pixel / 255.0 - mean[channel]) / std[channel]);
  }
  /// The pixel that comes nearest to 0.
  constexpr uint8_t nearest_to_mean(size_t channel) const {
    const double pixel = 255.0 * mean[channel] + 0.5;
    return pixel <= 0 ? 0 : pixel >= 255 ? 255 : static_cast<uint8_t>(pixel);
  }
};

/// What each pixel becomes, by channel.
using NormalisationTable = std::vector<std::array<float, 256>>;

inline NormalisationTable table_of(const Normalisation& normalisation, int64_t channels) {
  NormalisationTable table(static_cast<size_t>(channels));
  for (size_t c = 0; c < table.size(); ++c) {
    for (size_t v = 0; v < 256; ++v) table[c][v] = normalisation.of(static_cast<uint8_t>(v), c);
  }
  return table;
}

}  // namespace crossbow
