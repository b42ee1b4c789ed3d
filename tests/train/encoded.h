// Checkpoints as bytes in memory.
#pragma once

#include <algorithm>
#include <vector>

#include "train/checkpoint.h"

namespace crossbow::testing {

inline FileSink sink_of(std::vector<uint8_t>& file) {
  return {
      [&](std::span<const uint8_t> bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); },
      [&](int64_t offset, std::span<const uint8_t> bytes) {
        std::copy(bytes.begin(), bytes.end(), file.begin() + offset);
      }};
}

inline std::vector<uint8_t> encoded(const Checkpoint& checkpoint) {
  std::vector<uint8_t> file;
  encode(checkpoint, sink_of(file));
  return file;
}

inline FileBytes file_of(const std::vector<uint8_t>& file) {
  return {static_cast<int64_t>(file.size()), [file](int64_t offset, std::span<uint8_t> bytes) {
            std::copy_n(file.begin() + offset, bytes.size(), bytes.begin());
          }};
}

inline Checkpoint decoded(const std::vector<uint8_t>& file) {
  return decode(file_of(file));
}

}  // namespace crossbow::testing
