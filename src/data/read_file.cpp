#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/file.h"
#include "data/source.h"

namespace crossbow::data {

Path find_file(const Path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    Path path = folder / (name + suffix);
    if (type_of(path) != std::filesystem::file_type::not_found) return path;
  }
  return {};
}

bool has_files(const Path& folder, const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return !find_file(folder, name).empty(); });
}

std::vector<uint8_t> read_file(const Path& path, size_t limit) {
  Descriptor opened = open_regular_file(path);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzdopen(opened.get(), "rb"), gzclose);
  if (!file) throw std::bad_alloc();
  opened.release();
  gzbuffer(file.get(), 1 << 14);

  // Room for the file as it is, and one byte more so that its end shows without growing.
  std::error_code ignored;
  const uintmax_t packed = std::filesystem::file_size(path, ignored);
  std::vector<uint8_t> bytes(std::min<uintmax_t>(ignored ? 0 : packed, limit) + 1);
  for (size_t size = 0;;) {
    const size_t room = std::min<size_t>(bytes.size() - size, 1 << 30);
    const int n = gzread(file.get(), bytes.data() + size, static_cast<unsigned>(room));
    if (n > 0) size += static_cast<size_t>(n);
    int error = Z_OK;
    gzerror(file.get(), &error);
    if (error == Z_BUF_ERROR) fail("{} is cut short: get it again", path.string());
    if (n < 0 || error != Z_OK) {
      fail("cannot read {} ({}): get it again", path.string(),
           error == Z_ERRNO ? std::strerror(errno) : zError(error));
    }
    if (size > limit)
      fail("{} holds more than {} bytes: it is not what it should be", path.string(), limit);
    if (n == 0) {
      bytes.resize(size);
      return bytes;
    }
    if (size == bytes.size()) bytes.resize(std::min(2 * size, limit + 1));
  }
}

}  // namespace crossbow::data
