// Files of safetensors that say what nobody wrote, with a checksum that fits.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/crc32c.h"

namespace crossbow::testing {

constexpr std::string_view kSumComesAfter = R"({"__metadata__":{"crc32c":")";

/// Of a file that begins as ours do.
inline void fit_checksum(std::vector<uint8_t>& file) {
  const auto at = file.begin() + static_cast<ptrdiff_t>(sizeof(uint64_t) + kSumComesAfter.size());
  std::fill_n(at, 8, '0');
  const std::string sum = fmt::format("{:08x}", crc32c(file));
  std::copy(sum.begin(), sum.end(), at);
}

inline size_t header_length(const std::vector<uint8_t>& file) {
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  return length;
}

inline nlohmann::json header_of(const std::vector<uint8_t>& file) {
  const auto first = file.begin() + sizeof(uint64_t);
  return nlohmann::json::parse(first, first + static_cast<ptrdiff_t>(header_length(file)));
}

/// The values of `file` under another header.
inline std::vector<uint8_t> with_header(const std::vector<uint8_t>& file, nlohmann::json header) {
  nlohmann::json metadata = header.at("__metadata__");
  metadata.erase("crc32c");
  header.erase("__metadata__");
  std::string text(kSumComesAfter);
  text.append("00000000\"");
  for (const auto& [key, value] : metadata.items()) {
    text += fmt::format(",{}:{}", nlohmann::json(key).dump(), value.dump());
  }
  text += '}';
  for (const auto& [key, value] : header.items()) {
    text += fmt::format(",{}:{}", nlohmann::json(key).dump(), value.dump());
  }
  text += '}';
  const uint64_t length = text.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
  const auto values = static_cast<ptrdiff_t>(sizeof length + header_length(file));
  bytes.append(file.begin() + values, file.end());
  std::vector<uint8_t> forged(bytes.begin(), bytes.end());
  fit_checksum(forged);
  return forged;
}

/// With another text in its metadata.
inline std::vector<uint8_t> with_text(const std::vector<uint8_t>& file, const char* key,
                                      const std::string& text) {
  nlohmann::json header = header_of(file);
  header["__metadata__"][key] = text;
  return with_header(file, std::move(header));
}

/// What a checkpoint tells of its run.
inline nlohmann::json run_of(const std::vector<uint8_t>& checkpoint) {
  return nlohmann::json::parse(header_of(checkpoint)["__metadata__"]["run"].get<std::string>());
}

}  // namespace crossbow::testing
