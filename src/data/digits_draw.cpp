#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.h"
#include "data/digits.h"

namespace crossbow::data {
namespace {

constexpr uint64_t kSeed = 20190801;  // the set's own, whatever --seed says
constexpr int kOne = 256;             // a pixel, in the fixed point of positions
constexpr int64_t kUnit = 1 << 16;    // 1, in the fixed point of the transformation

struct Point {
  int64_t x, y;  // in 1/256 pixels, or 1/256 glyph units before the transformation
};

bool operator==(const Point& a, const Point& b) {
  return a.x == b.x && a.y == b.y;
}

class Draws {
 public:
  Draws(DigitSplit split, int64_t i)
      : rng_(kSeed, Purpose::digits, static_cast<uint32_t>(split), static_cast<uint64_t>(i)) {}

  /// Uniform in {low, …, high}.
  int range(int low, int high) {
    return low + static_cast<int>(rng_.below(static_cast<uint32_t>(high - low + 1)));
  }
  /// Sum of four bytes, less the mean: nearly normal, with a standard deviation of 148.
  int bell() {
    const uint32_t r = rng_.next();
    return static_cast<int>((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24)) - 510;
  }

 private:
  Rng rng_;
};

/// A hand's unsteadiness: random displacements at a 3 × 3 lattice over the glyph's box, bilinear in
/// between, so that strokes that meet still do.
class Warp {
 public:
  explicit Warp(Draws& draws) {
    for (Point& p : at_)
      p = {draws.range(-14 * kOne, 14 * kOne), draws.range(-14 * kOne, 14 * kOne)};
  }

  Point operator()(GlyphPoint p) const {
    constexpr int kHalf = 64;  // half of the lattice's side, in glyph units
    const int x = std::clamp(p.x + kHalf, 0, 2 * kHalf - 1);
    const int y = std::clamp(p.y + kHalf, 0, 2 * kHalf - 1);
    const int fx = x % kHalf, fy = y % kHalf;
    const Point* corner = &at_[static_cast<size_t>(3 * (y / kHalf) + x / kHalf)];
    const auto mix = [&](int64_t Point::*m) {
      return ((corner[0].*m * (kHalf - fx) + corner[1].*m * fx) * (kHalf - fy) +
              (corner[3].*m * (kHalf - fx) + corner[4].*m * fx) * fy) /
             (kHalf * kHalf);
    };
    return {p.x * kOne + mix(&Point::x), p.y * kOne + mix(&Point::y)};
  }

 private:
  std::array<Point, 9> at_;
};

/// Size, slant, rotation and place.
class Placement {
 public:
  explicit Placement(Draws& draws) {
    // Nominally 100 glyph units are 20 pixels.
    const int64_t height = draws.range(9500, 14500);
    const int64_t width = height * draws.range(60, 120) / 100;
    const int64_t shear = draws.range(-24000, 24000);
    // With t = tan(θ / 2): cos θ = (1 − t²) / (1 + t²), sin θ = 2t / (1 + t²); θ is within ±20°.
    const int64_t t = draws.range(-11500, 11500);
    const int64_t norm = kUnit * kUnit + t * t;
    const int64_t cos = (kUnit * kUnit - t * t) * kUnit / norm;
    const int64_t sin = 2 * t * kUnit * kUnit / norm;
    xx_ = cos * width / kUnit;
    xy_ = (cos * shear / kUnit - sin) * height / kUnit;
    yx_ = sin * width / kUnit;
    yy_ = (sin * shear / kUnit + cos) * height / kUnit;
    middle_ = {kDigitSide * kOne / 2 + draws.range(-700, 700),
               kDigitSide * kOne / 2 + draws.range(-600, 600)};
  }

  Point operator()(Point p) const {
    return {(xx_ * p.x + xy_ * p.y) / kUnit + middle_.x,
            (yx_ * p.x + yy_ * p.y) / kUnit + middle_.y};
  }

 private:
  int64_t xx_, xy_, yx_, yy_;
  Point middle_;
};

/// Corner cutting (Chaikin): two rounds towards the quadratic B-spline of the control polygon.
std::vector<Point> smooth(std::vector<Point> points) {
  for (int round = 0; round < 2; ++round) {
    const bool closed = points.front() == points.back();
    std::vector<Point> cut;
    if (!closed) cut.push_back(points.front());
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      const Point a = points[i], b = points[i + 1];
      cut.push_back({(3 * a.x + b.x) / 4, (3 * a.y + b.y) / 4});
      cut.push_back({(a.x + 3 * b.x) / 4, (a.y + 3 * b.y) / 4});
    }
    cut.push_back(closed ? cut.front() : points.back());
    points = std::move(cut);
  }
  return points;
}

/// Squared distance of each pixel's centre from the ink's centre line, as far as the pen reaches.
class Canvas {
 public:
  explicit Canvas(int reach) : reach_(reach) { squared_.fill(int64_t{reach} * reach); }

  void line(Point a, Point b) {
    const int64_t dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
    const int left = first_pixel(std::min(a.x, b.x)), right = last_pixel(std::max(a.x, b.x));
    const int top = first_pixel(std::min(a.y, b.y)), bottom = last_pixel(std::max(a.y, b.y));
    for (int row = top; row <= bottom; ++row) {
      for (int column = left; column <= right; ++column) {
        const int64_t px = column * kOne + kOne / 2 - a.x, py = row * kOne + kOne / 2 - a.y;
        const int64_t along = px * dx + py * dy;
        int64_t squared = px * px + py * py;
        if (along >= length2) {
          squared = (px - dx) * (px - dx) + (py - dy) * (py - dy);
        } else if (along > 0) {
          squared -= along * along / length2;
        }
        int64_t& nearest = squared_[static_cast<size_t>(row * kDigitSide + column)];
        nearest = std::min(nearest, squared);
      }
    }
  }

  /// How much of pixel `i` is inked, out of 256: a ramp one pixel wide at the pen's edge.
  int coverage(int i) const {
    // Exact: IEEE 754 prescribes the rounding of a square root.
    const double distance = std::sqrt(static_cast<double>(squared_[static_cast<size_t>(i)]));
    return std::min(reach_ - static_cast<int>(distance), kOne);
  }

 private:
  int first_pixel(int64_t low) const {
    return static_cast<int>(std::clamp<int64_t>((low - reach_) / kOne, 0, kDigitSide));
  }
  int last_pixel(int64_t high) const {
    return static_cast<int>(std::clamp<int64_t>((high + reach_) / kOne, -1, kDigitSide - 1));
  }

  int reach_;
  std::array<int64_t, kDigitPixels> squared_;
};

}  // namespace

int draw_digit(DigitSplit split, int64_t i, uint8_t* pixels) {
  Draws draws(split, i);
  const int digit = draws.range(0, 9);
  const std::span<const Glyph> variants = glyphs_of(digit);
  const Glyph& glyph =
      variants[static_cast<size_t>(draws.range(0, static_cast<int>(variants.size()) - 1))];
  const Warp warp(draws);
  const Placement place(draws);
  Canvas canvas(draws.range(160, 460) + kOne / 2);
  for (const Stroke& stroke : glyph) {
    std::vector<Point> points;
    for (const GlyphPoint& p : stroke) points.push_back(place(warp(p)));
    points = smooth(std::move(points));
    for (size_t k = 0; k + 1 < points.size(); ++k) canvas.line(points[k], points[k + 1]);
  }
  const int ink = draws.range(110, 255);
  const int noise = draws.range(0, 70);
  for (int k = 0; k < kDigitPixels; ++k) {
    const int value = (canvas.coverage(k) * ink + draws.bell() * noise) / kOne;
    pixels[k] = static_cast<uint8_t>(std::clamp(value, 0, 255));
  }
  return digit;
}

}  // namespace crossbow::data
