#include "core/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".crossbow-", kSuffix = ".tmp";
constexpr size_t kDigits = 16;  // between them, hexadecimal

std::string_view name_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory:
      return "a folder";
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::socket:
      return "a socket";
    default:
      return "a device";
  }
}

fs::file_type type_of_mode(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return fs::file_type::regular;
    case S_IFDIR:
      return fs::file_type::directory;
    case S_IFIFO:
      return fs::file_type::fifo;
    case S_IFSOCK:
      return fs::file_type::socket;
    case S_IFBLK:
      return fs::file_type::block;
    default:
      return fs::file_type::character;
  }
}

bool write_all_at(int fd, int64_t offset, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return true;
}

[[noreturn]] void refuse_to_write(const fs::path& path) {
  fail("cannot write {} ({}): make room or choose another folder", path.string(),
       std::strerror(errno));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

/// Whether a file of this name is a temporary one of a writer of `name`.
bool is_temporary(std::string_view file, std::string_view name) {
  if (file.size() != name.size() + kMark.size() + kDigits + kSuffix.size()) return false;
  return file.starts_with(name) && file.substr(name.size()).starts_with(kMark) &&
         file.ends_with(kSuffix);
}

/// Removes the temporary files of writers of `path` who are no more. A living one holds a lock on
/// its file; where the file system knows no locks, none can be told from the others and all stay.
void remove_leftovers(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  fs::directory_iterator entries(folder_of(path), ignored);
  for (; entries != fs::directory_iterator(); entries.increment(ignored)) {
    const fs::path& found = entries->path();
    if (!is_temporary(found.filename().string(), name)) continue;
    const Descriptor file(::open(found.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(found.c_str());
  }
}

bool is_linked(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_nlink > 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void close_meanwhile(Descriptor file) {
  if (file.get() < 0) return;
  try {
    std::thread([file = std::move(file)] {}).detach();
  } catch (const std::system_error&) {
    // Without another thread it is closed here.
  }
}

fs::file_type type_of(const fs::path& path) {
  return type_of(path.c_str());
}

fs::file_type type_of(const char* path) {
  struct stat status {};
  if (::stat(path, &status) == 0) return type_of_mode(status.st_mode);
  if (errno == ENOENT || errno == ENOTDIR) return fs::file_type::not_found;
  fail("cannot look at {} ({})", path, std::strerror(errno));
}

Descriptor open_regular_file(const fs::path& path) {
  return open_regular_file(path.c_str());
}

Descriptor open_regular_file(const char* path) {
  const fs::file_type type = type_of(path);
  if (type != fs::file_type::regular && type != fs::file_type::not_found) {
    fail("cannot read {}: it is {} instead of a file", path, name_of(type));
  }
  // O_NONBLOCK: should a pipe take the file's place in between.
  Descriptor file(::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    fail("cannot read {}: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) fail("cannot read {}: it is no regular file", path);
  return file;
}

bool stays_within(const fs::path& path) {
  return path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

void read_at(const Descriptor& file, int64_t offset, std::span<uint8_t> bytes,
             const fs::path& path) {
  read_at(file, offset, bytes, path.c_str());
}

void read_at(const Descriptor& file, int64_t offset, std::span<uint8_t> bytes, const char* path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(file.get(), bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read {}: {}", path, std::strerror(errno));
    if (n == 0) fail("cannot read {}: it has become shorter meanwhile", path);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
}

bool write_all(const Descriptor& file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

FileBytes bytes_of_file(const fs::path& path) {
  const auto file = std::make_shared<const Descriptor>(open_regular_file(path));
  struct stat status {};
  ::fstat(file->get(), &status);
  return {status.st_size, [file, path](int64_t offset, std::span<uint8_t> bytes) {
            read_at(*file, offset, bytes, path);
          }};
}

void read_in_pieces(const FileBytes& file,
                    const std::function<void(int64_t, std::span<uint8_t>)>& piece) {
  constexpr int64_t kPiece = 1 << 20;
  std::vector<uint8_t> buffer(static_cast<size_t>(std::min(file.size, kPiece)));
  for (int64_t at = 0; at < file.size; at += kPiece) {
    const auto bytes =
        std::span(buffer).first(static_cast<size_t>(std::min(kPiece, file.size - at)));
    file.read(at, bytes);
    piece(at, bytes);
  }
}

std::string read_text_file(const fs::path& path, size_t limit) {
  const Descriptor file = open_regular_file(path);
  std::string text;
  for (char piece[1 << 14];;) {
    const ssize_t n = ::read(file.get(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read {}: {}", path.string(), std::strerror(errno));
    if (n == 0) return text;
    text.append(piece, static_cast<size_t>(n));
    if (text.size() > limit) {
      fail("cannot read {}: it holds more than {} bytes", path.string(), limit);
    }
  }
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  remove_leftovers(path_);
  std::random_device random;
  // Between opening and locking, another writer may take the file for a leftover and remove it.
  while (!is_linked(file_.get())) {
    const uint64_t number = uint64_t{random()} << 32 | random();
    temporary_ = fmt::format("{}{}{:016x}{}", path_.string(), kMark, number, kSuffix);
    file_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file_.get() < 0 && errno == EEXIST) continue;
    if (file_.get() < 0) {
      fail("cannot write {} ({}): choose a folder you may write in", path_.string(),
           std::strerror(errno));
    }
    ::flock(file_.get(), LOCK_EX);
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_ && file_.get() >= 0) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  if (!write_all(file_, bytes)) refuse_to_write(path_);
}

FileSink AtomicFile::sink() {
  return {[this](std::span<const uint8_t> bytes) { write(bytes); },
          [this](int64_t offset, std::span<const uint8_t> bytes) {
            if (!write_all_at(file_.get(), offset, bytes)) refuse_to_write(path_);
          }};
}

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) refuse_to_write(path_);
  move_into_place(temporary_, path_);
  committed_ = true;
}

void move_into_place(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) refuse_to_write(to);
  // The rename itself must survive a power cut; not every file system lets a folder be synced.
  const Descriptor folder(::open(folder_of(to).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (!error) return;
  const Descriptor file = open_regular_file(from);
  AtomicFile copy(to);
  std::vector<uint8_t> piece(1 << 18);
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read {}: {}", from.string(), std::strerror(errno));
    if (n == 0) break;
    copy.write(std::span(piece).first(static_cast<size_t>(n)));
  }
  copy.commit();
}

void write_file_atomically(const fs::path& path,
                           std::initializer_list<std::span<const uint8_t>> parts) {
  AtomicFile file(path);
  for (const auto part : parts) file.write(part);
  file.commit();
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, {{reinterpret_cast<const uint8_t*>(text.data()), text.size()}});
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("cannot make the folder {} ({})", folder.string(), error.message());
}

std::optional<Descriptor> lock_folder(const fs::path& folder) {
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 && errno != ENOENT) {
    fail("cannot open the folder {} ({})", folder.string(), std::strerror(errno));
  }
  if (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
  return directory;
}

fs::path cache_folder() {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    const fs::path path(value ? value : "");
    return path.is_absolute() ? path : fs::path();
  };
  const fs::path cache = folder("XDG_CACHE_HOME"), home = folder("HOME");
  if (!cache.empty()) return cache / "crossbow";
  return home.empty() ? home : home / ".cache" / "crossbow";
}

}  // namespace crossbow
