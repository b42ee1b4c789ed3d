#include "core/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"

namespace crossbow {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

bool Descriptor::close() {
  return ::close(std::exchange(fd_, -1)) == 0;
}

namespace {

bool write_all(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool write_and_sync(Descriptor& file, std::initializer_list<std::span<const uint8_t>> parts) {
  for (const auto part : parts) {
    if (!write_all(file.get(), part)) return false;
  }
  return ::fsync(file.get()) == 0 && file.close();
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path,
                           std::initializer_list<std::span<const uint8_t>> parts) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string temporary = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    fail("cannot write in {} ({}): choose a folder you may write in", folder.string(),
         std::strerror(errno));
  }
  if (!write_and_sync(file, parts) || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail("cannot write {} ({}): make room or choose another folder", path.string(),
         std::strerror(error));
  }
  // The rename itself must survive a power cut; not every file system lets a folder be synced.
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, {{reinterpret_cast<const uint8_t*>(text.data()), text.size()}});
}

std::optional<Descriptor> lock_folder(const std::filesystem::path& folder) {
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
  return directory;
}

}  // namespace crossbow
