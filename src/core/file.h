// Reading files that others may have put there, and writing them so that a reader, or a crash,
// never sees half of one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace crossbow {

/// Owns an open file descriptor; negative: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  /// The caller closes the descriptor.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Closes a file on a thread of its own: where it has no name left, its memory and its place on the
/// disk are freed, which takes long.
void close_meanwhile(Descriptor file);

/// What is at `path`, links followed; not_found if nothing is. Throws Error, naming the path and
/// the reason, if the system does not tell: a loop of links, a name that is too long, a folder that
/// may not be searched.
std::filesystem::file_type type_of(const std::filesystem::path& path);
std::filesystem::file_type type_of(const char* path);

/// Whether a path leads to somewhere beneath the folder where it begins, by its name alone.
bool stays_within(const std::filesystem::path& path);

/// Opens a plain file for reading. Throws Error, naming the path and the reason, if it cannot be
/// opened or is anything else: a pipe or a device might keep its reader waiting for ever.
Descriptor open_regular_file(const std::filesystem::path& path);
/// The same, without taking memory.
Descriptor open_regular_file(const char* path);

/// Fills `bytes` from `offset` on. Throws Error if the file ends before or cannot be read; `path`
/// is what the error names.
void read_at(const Descriptor& file, int64_t offset, std::span<uint8_t> bytes,
             const std::filesystem::path& path);
void read_at(const Descriptor& file, int64_t offset, std::span<uint8_t> bytes, const char* path);

/// False, with errno, if not all could be written.
bool write_all(const Descriptor& file, std::span<const uint8_t> bytes);

/// A file's bytes, wherever they are.
struct FileBytes {
  int64_t size = 0;
  std::function<void(int64_t offset, std::span<uint8_t> bytes)> read;
};
/// Of a plain file, which stays open as long as a copy of this lives. Throws Error as
/// open_regular_file and read_at do.
FileBytes bytes_of_file(const std::filesystem::path& path);

/// Calls `piece` with all of a file's bytes, some at a time, which it may change.
void read_in_pieces(const FileBytes& file,
                    const std::function<void(int64_t offset, std::span<uint8_t> bytes)>& piece);

/// Takes a file's bytes, wherever they go.
struct FileSink {
  std::function<void(std::span<const uint8_t> bytes)> append;
  /// Of bytes that were appended before.
  std::function<void(int64_t offset, std::span<const uint8_t> bytes)> overwrite;
};

/// The whole of a plain file. Throws Error as open_regular_file does, or if it is longer than
/// `limit` bytes.
std::string read_text_file(const std::filesystem::path& path, size_t limit);

/// Writes a new file for `path`: into a temporary file beside it, which replaces whatever was at
/// `path` when all is written and on disk. Until then, and whenever it fails (a full disk, an
/// unwritable folder), what was at `path` stays. Throws Error naming the path. Any number of
/// threads and processes may write the same path at a time; the last one to finish wins. A process
/// that is killed leaves its temporary file; the next writer of the same path removes it. One
/// thread an object.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;

  void write(std::span<const uint8_t> bytes);
  /// Writes here; to be used while this lives.
  FileSink sink();
  /// Nothing may be written after it.
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  Descriptor file_;  // locked: its writer lives
  bool committed_ = false;
};

/// `from`, which is on disk, takes the place of whatever is at `to`, in the same folder. Throws
/// Error naming `to`.
void move_into_place(const std::filesystem::path& from, const std::filesystem::path& to);

/// Gives the file a second name, `to`, which nothing has yet. Where the file system has no links,
/// `to` is a copy that is on disk. Throws Error if it cannot be made.
void link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);

/// AtomicFile's job in one call, for the concatenation of `parts`.
void write_file_atomically(const std::filesystem::path& path,
                           std::initializer_list<std::span<const uint8_t>> parts);

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Makes the folder, and those that it lies in, where they are missing. Throws Error naming it.
void make_folder(const std::filesystem::path& folder);

/// Keeps the folder for this process until the result goes out of scope; nothing if another one has
/// it. Where the file system knows no locks, or there is no such folder, nobody is kept out. Throws
/// Error if the folder cannot be opened.
std::optional<Descriptor> lock_folder(const std::filesystem::path& folder);

/// Where this user's programs keep what only saves time, with a folder of our own: XDG_CACHE_HOME,
/// or else .cache in HOME, followed by "crossbow". Variables that are empty or hold a relative path
/// count as not set; without any the result is empty.
std::filesystem::path cache_folder();

}  // namespace crossbow
