#include "data/files.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

TEST(ReadFile, ReadsPackedAndPlainFilesAlike) {
  const TemporaryFolder folder;
  const FileBytes bytes(100000, 7);
  write_file(folder.path() / "plain", bytes);
  write_file(folder.path() / "packed.gz", gzip(bytes));
  write_file(folder.path() / "empty", {});
  EXPECT_EQ(read_file(find_file(folder.path(), "plain"), 100000), bytes);
  EXPECT_EQ(read_file(find_file(folder.path(), "packed"), 100000), bytes);
  EXPECT_TRUE(read_file(folder.path() / "empty", 100000).empty());
}

TEST(ReadFile, BoundsWhatASmallFileUnpacksTo) {
  const TemporaryFolder folder;
  const FileBytes packed = gzip(FileBytes(1000000, 0));
  ASSERT_LT(packed.size(), 2000u);
  write_file(folder.path() / "bomb.gz", packed);
  EXPECT_ERROR(read_file(folder.path() / "bomb.gz", 5000), "bomb.gz holds more than 5000 bytes");
}

TEST(ReadFile, SaysWhyAFileCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read_file(folder.path() / "none", 10), "none: No such file or directory");
  EXPECT_ERROR(read_file(folder.path(), 10), "cannot read");
}

}  // namespace
}  // namespace crossbow::data
