// SHA-256, by OpenSSL.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/file.h"

namespace crossbow::data {

/// In hexadecimal, with small letters.
std::string sha256(std::span<const uint8_t> bytes);
std::string sha256(const crossbow::FileBytes& file);

}  // namespace crossbow::data
