// Writing files so that a reader, or a crash, never sees half of one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace crossbow {

/// Owns an open file descriptor; negative: none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor();
  int get() const { return fd_; }
  /// False if the system could not finish writing.
  bool close();

 private:
  int fd_;
};

/// Replaces `path` by the concatenation of `parts`: written to a temporary file beside it, synced,
/// renamed over it, and the folder synced. On failure (a full disk, an unwritable folder) the
/// temporary file is removed, whatever was at `path` is left as it was, and Error is thrown.
/// Several processes may write the same path at a time (but only one thread of each); one of them
/// wins whole.
void write_file_atomically(const std::filesystem::path& path,
                           std::initializer_list<std::span<const uint8_t>> parts);

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Keeps the folder for this process until the result goes out of scope; nothing if another one has
/// it. Where the file system knows no locks, nobody is kept out.
std::optional<Descriptor> lock_folder(const std::filesystem::path& folder);

}  // namespace crossbow
