// That a file is on disk before it takes another's place, and its name before the call returns:
// the C library's calls are replaced by ones that take notes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/file.h"
#include "data/files.h"

namespace {

struct Note {
  std::string call;
  std::string path;   // as the kernel names it
  int64_t bytes = 0;  // of the file, at that moment
};
std::vector<Note>* notes = nullptr;

std::string path_of(int fd) {
  char path[4096];
  const auto n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return {path, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

}  // namespace

extern "C" int fsync(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  if (notes)
    notes->push_back(
        {S_ISDIR(status.st_mode) ? "sync folder" : "sync file", path_of(fd), status.st_size});
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (notes) notes->push_back({"rename", from, 0});
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace crossbow {
namespace {

TEST(WriteFileOrder, SyncsTheFileThenRenamesItThenSyncsTheFolder) {
  const data::TemporaryFolder folder;
  std::vector<Note> seen;
  notes = &seen;
  write_file_atomically(folder.path() / "model", "ten bytes.");
  notes = nullptr;
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].call, "sync file");
  EXPECT_EQ(seen[0].bytes, 10);
  EXPECT_EQ(seen[1].call, "rename");
  EXPECT_EQ(seen[1].path, seen[0].path);
  EXPECT_EQ(seen[2].call, "sync folder");
  EXPECT_EQ(seen[2].path, folder.path().string());
}

}  // namespace
}  // namespace crossbow
