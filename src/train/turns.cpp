#include "train/turns.h"

#include <sys/stat.h>

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
  const Descriptor file = open_regular_file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || status.st_size < turns) return {};
  std::vector<uint8_t> bytes(static_cast<size_t>(turns));
  read_at(file, 0, bytes, path);
  return {bytes.begin(), bytes.end()};
}

}  // namespace crossbow
