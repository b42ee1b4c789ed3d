// What may lie where a file should, and cannot be read as one.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace crossbow::testing {

struct OddFile {
  std::filesystem::path path;
  std::string reason;  // that an error names
};

/// Makes a folder, a pipe, a socket, a link to a device, and a loop of links in `folder`; and names
/// one that is too long.
inline std::vector<OddFile> odd_files(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  fs::create_directory(folder / "folder");
  ::mkfifo((folder / "pipe").c_str(), 0666);
  std::error_code made_before;
  fs::create_symlink("/dev/zero", folder / "device", made_before);
  fs::create_symlink("loop", folder / "loop", made_before);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  (void)::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::close(socket);
  return {{folder / "folder", "it is a folder"},
          {folder / "pipe", "it is a pipe"},
          {folder / "device", "it is a device"},
          {folder / "socket", "it is a socket"},
          {folder / "loop", "Too many levels of symbolic links"},
          {folder / std::string(300, 'x'), "File name too long"}};
}

}  // namespace crossbow::testing
