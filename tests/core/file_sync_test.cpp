// That a file is on disk before it takes another's place, and its name before the call returns.
#include <gtest/gtest.h>

#include "core/file.h"
#include "data/files.h"
#include "support/disk_calls.h"

namespace crossbow {
namespace {

TEST(WriteFileOrder, SyncsTheFileThenRenamesItThenSyncsTheFolder) {
  const data::TemporaryFolder folder;
  const auto calls =
      testing::disk_calls([&] { write_file_atomically(folder.path() / "model", "ten bytes."); });
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].name, "sync file");
  EXPECT_EQ(calls[0].bytes, 10);
  EXPECT_EQ(calls[1].name, "rename");
  EXPECT_EQ(calls[1].from, calls[0].path);
  EXPECT_EQ(calls[2].name, "sync folder");
  EXPECT_EQ(calls[2].path, folder.path().string());
}

}  // namespace
}  // namespace crossbow
