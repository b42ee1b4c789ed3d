#include "core/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>

#include "core/error.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

class WriteFile : public testing::Test {
 protected:
  WriteFile() {
    std::string name = (fs::temp_directory_path() / "crossbow-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~WriteFile() override { fs::remove_all(folder_); }

  static std::span<const uint8_t> bytes(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }
  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  int64_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  fs::path folder_;
};

TEST_F(WriteFile, ReplacesTheWholeFileAndLeavesNothingElse) {
  const fs::path path = folder_ / "model";
  const std::string longer = "a longer text", head = "ab", tail = "cd";
  write_file_atomically(path, {bytes(longer)});
  EXPECT_EQ(read(path), longer);
  write_file_atomically(path, {bytes(head), bytes(tail)});
  EXPECT_EQ(read(path), "abcd");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, LeavesWhoMayReadToTheUmask) {
  const mode_t before = ::umask(027);
  write_file_atomically(folder_ / "model", {});
  ::umask(before);
  EXPECT_EQ(fs::status(folder_ / "model").permissions(), fs::perms(0640));
}

TEST_F(WriteFile, LeavesTheOldFileWhenItFails) {
  // A folder in the way: the rename fails after all was written.
  fs::create_directories(folder_ / "model" / "inner");
  EXPECT_THROW(write_file_atomically(folder_ / "model", {bytes("text")}), Error);
  EXPECT_EQ(files(), 1);
  EXPECT_THROW(write_file_atomically(folder_ / "none" / "model", {bytes("text")}), Error);
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

}  // namespace
}  // namespace crossbow
