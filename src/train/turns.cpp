#include "train/turns.h"

#include "core/file.h"

namespace crossbow {

std::string encode_turns(const std::vector<int32_t>& nodes) {
  std::string bytes;
  for (const int32_t node : nodes) bytes += static_cast<char>(node);
  return bytes;
}

std::vector<int32_t> read_turns(const std::filesystem::path& folder, int64_t turns) {
  const std::filesystem::path path = folder / kTurnsFile;
  if (type_of(path) != std::filesystem::file_type::regular) return {};
  constexpr size_t kMostBytes = size_t{1} << 40;
  const std::string bytes = read_text_file(path, kMostBytes);
  if (std::ssize(bytes) < turns) return {};
  std::vector<int32_t> nodes;
  nodes.reserve(static_cast<size_t>(turns));
  for (int64_t i = 0; i < turns; ++i) {
    nodes.push_back(static_cast<uint8_t>(bytes[static_cast<size_t>(i)]));
  }
  return nodes;
}

}  // namespace crossbow
