// The built-in data set: handwritten-looking digits drawn by the program. Integer arithmetic only
// (and a correctly rounded square root), so every machine draws the same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crossbow::data {

/// In glyph units: a digit is about 100 tall and its middle is (0, 0); x to the right, y down.
struct GlyphPoint {
  int x, y;
};

/// The control polygon of a smooth curve; closed if the last point equals the first.
using Stroke = std::vector<GlyphPoint>;
using Glyph = std::vector<Stroke>;

/// The ways to write `digit`, in 0 to 9.
std::span<const Glyph> glyphs_of(int digit);

constexpr int kDigitSide = 28;
constexpr int kDigitPixels = kDigitSide * kDigitSide;

enum class DigitSplit : uint32_t { train, test };

/// Draws sample `i` of a split into 28 × 28 bytes and returns its label: a pure function.
int draw_digit(DigitSplit split, int64_t i, uint8_t* pixels);

}  // namespace crossbow::data
