// Data files that cannot be read as files: a sentence for each, and nobody waits.
#include "support/odd_files.h"
#include "data/dataset.h"
#include "data/files.h"
#include "data/source.h"
#include "train/tiny_run.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;
using crossbow::testing::odd_files;

TEST(OddFiles, AreRefusedByName) {
  const TemporaryFolder folder;
  for (const auto& odd : odd_files(folder.path())) {
    EXPECT_ERROR(read_file(odd.path, 100), odd.path.string());
    EXPECT_ERROR(read_file(odd.path, 100), odd.reason);
  }
}

TEST(OddFiles, InTheMiddleOfASetAreRefusedByName) {
  const crossbow::testing::TinyData set;
  const TemporaryFolder folder;
  for (const auto& odd : odd_files(folder.path())) {
    const fs::path labels = set.path() / "train-labels-idx1-ubyte";
    if (odd.path.filename().string().size() > 255)
      continue;  // a link to it is refused by the system
    fs::remove(labels);
    fs::create_symlink(odd.path, labels);
    EXPECT_ERROR(open_dataset(set.spec()), labels.string());
    EXPECT_ERROR(open_dataset(set.spec()), odd.reason);
  }
}

TEST(OddFiles, InThePlaceOfASetAreRefusedByName) {
  const TemporaryFolder folder;
  for (const auto& odd : odd_files(folder.path())) {
    for (const char* set : {"mnist:", "cifar10:", "cifar100:", "imagefolder:"}) {
      EXPECT_ERROR(open_dataset(set + odd.path.string()), odd.path.string());
    }
  }
  const std::string loop = (folder.path() / "loop").string();
  EXPECT_ERROR(open_dataset("mnist:" + loop), "Too many levels of symbolic links");
  const ScopedVariable root("CROSSBOW_DATA", loop.c_str());
  EXPECT_FALSE(catalogue()[1].found);
}

TEST(OddFiles, AmongPicturesAreRefusedByName) {
  const TemporaryFolder folder;
  for (const char* part : {"train", "test"}) fs::create_directories(folder.path() / part / "cat");
  fs::create_symlink("loop.png", folder.path() / "train" / "cat" / "loop.png");
  EXPECT_ERROR(open_dataset("imagefolder:" + folder.path().string()),
               "loop.png: Too many levels of symbolic links");
}

/// Its names are read from a file of their own.
TEST(OddFiles, AmongCifar100sFilesAreRefusedByName) {
  const TemporaryFolder folder;
  FileBytes record(2 + 3072);
  write_file(folder.path() / "train.bin", record);
  write_file(folder.path() / "test.bin", record);
  const std::string spec = "cifar100:" + folder.path().string();
  EXPECT_EQ(open_dataset(spec)->info.class_names[99], "99");
  ::mkfifo((folder.path() / "fine_label_names.txt").c_str(), 0666);
  EXPECT_ERROR(open_dataset(spec), "fine_label_names.txt: it is a pipe");
}

}  // namespace
}  // namespace crossbow::data
