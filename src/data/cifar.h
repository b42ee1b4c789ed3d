// The binary form of CIFAR-10 and CIFAR-100: https://www.cs.toronto.edu/~kriz/cifar.html. Records
// of one label byte (CIFAR-10), or of a coarse and a fine one (CIFAR-100), and 3 × 32 × 32 pixels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crossbow::data {

constexpr int64_t kCifarPixels = 3 * 32 * 32;

struct CifarImages {
  std::vector<int32_t> labels;  // of CIFAR-100 the fine ones
  std::vector<uint8_t> pixels;  // CHW, one image after another
};

/// Appends a file's records to `images`. Throws Error, and appends nothing, unless `file` is a
/// whole number of records (at least one) whose labels are below `classes`.
void parse_cifar(std::span<const uint8_t> file, int64_t classes, CifarImages& images);

/// Label bytes before the pixels of a record.
constexpr int64_t cifar_label_bytes(int64_t classes) {
  return classes == 100 ? 2 : 1;
}

}  // namespace crossbow::data
