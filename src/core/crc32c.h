// CRC-32C (Castagnoli), the checksum of TensorFlow's records and of the files we write.
#pragma once

#include <cstdint>
#include <span>

#include "core/file.h"

namespace crossbow {

/// Of `bytes` behind others whose checksum is `before`.
uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t before = 0);
/// Of a whole file, which is read piece by piece.
uint32_t crc32c(const FileBytes& file);

}  // namespace crossbow
