#include "core/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/error.h"
#include "data/files.h"
#include "support/odd_files.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

std::span<const uint8_t> bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string read(const fs::path& path) {
  return read_text_file(path, 1 << 20);
}

class WriteFile : public ::testing::Test {
 protected:
  int64_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }
  /// The temporary file of the only writer.
  fs::path temporary() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".tmp") return entry.path();
    }
    return {};
  }

  const data::TemporaryFolder made_;
  const fs::path folder_ = made_.path();
  const fs::path path_ = folder_ / "model";
};

TEST_F(WriteFile, ReplacesTheWholeFileAndLeavesNothingElse) {
  const std::string longer = "a longer text", head = "ab", tail = "cd";
  write_file_atomically(path_, {bytes(longer)});
  EXPECT_EQ(read(path_), longer);
  write_file_atomically(path_, {bytes(head), bytes(tail)});
  EXPECT_EQ(read(path_), "abcd");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, LeavesWhoMayReadToTheUmask) {
  const mode_t before = ::umask(027);
  write_file_atomically(path_, {});
  ::umask(before);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0640));
}

TEST_F(WriteFile, LeavesTheOldFileWhenItFails) {
  // A folder in the way: the rename fails after all was written.
  fs::create_directories(path_ / "inner");
  EXPECT_THROW(write_file_atomically(path_, {bytes("text")}), Error);
  EXPECT_EQ(files(), 1);
  EXPECT_THROW(write_file_atomically(folder_ / "none" / "model", {bytes("text")}), Error);
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(WriteFile, LeavesTheOldFileUntilTheNewOneIsWhole) {
  write_file_atomically(path_, "old");
  {
    AtomicFile given_up(path_);
    given_up.write(bytes("new"));
    EXPECT_EQ(read(path_), "old");
  }
  EXPECT_EQ(read(path_), "old");
  EXPECT_EQ(files(), 1);
}

/// As do two containers whose processes have the same number.
TEST_F(WriteFile, SeveralWritersOfAPathDoNotMeet) {
  AtomicFile first(path_), second(path_);
  first.write(bytes("first"));
  second.write(bytes("second"));
  first.commit();
  EXPECT_EQ(read(path_), "first");
  second.commit();
  EXPECT_EQ(read(path_), "second");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, ManyThreadsMayWriteAPath) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, text = std::string(100, static_cast<char>('a' + t))] {
      for (int i = 0; i < 50; ++i) write_file_atomically(path_, text);
    });
  }
  threads.clear();
  const std::string text = read(path_);
  EXPECT_EQ(text, std::string(100, text[0]));
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteFile, RemovesWhatAKilledWriterOfTheSamePathHasLeft) {
  fs::path left;
  {
    AtomicFile killed(path_);
    left = temporary();
    // What a process leaves that ends without destructors: its file, and no lock.
    fs::copy_file(left, folder_ / "kept");
  }
  const auto other = left.filename().string().replace(0, 5, "other");
  for (const auto& name : {left.filename().string(), other, std::string("model.backup.tmp")}) {
    fs::copy_file(folder_ / "kept", folder_ / name);
  }
  fs::remove(folder_ / "kept");
  write_file_atomically(path_, "text");
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(folder_ / other));
  EXPECT_TRUE(fs::exists(folder_ / "model.backup.tmp"));
  EXPECT_EQ(files(), 3);
}

TEST(ReadTextFile, ReadsPlainFilesUpToALimit) {
  const data::TemporaryFolder folder;
  const fs::path path = folder.path() / "text";
  const std::string text(100000, 'x');
  write_file_atomically(path, text);
  EXPECT_EQ(read_text_file(path, text.size()), text);
  EXPECT_ERROR(read_text_file(path, text.size() - 1), "text: it holds more than 99999 bytes");
}

TEST(ReadTextFile, RefusesWhatIsNoFileWithoutWaitingForIt) {
  const data::TemporaryFolder folder;
  for (const auto& odd : testing::odd_files(folder.path())) {
    EXPECT_ERROR(read_text_file(odd.path, 100), odd.path.string());
    EXPECT_ERROR(read_text_file(odd.path, 100), odd.reason);
  }
}

TEST(CloseMeanwhile, ClosesTheFile) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor reader(ends[0]);
  close_meanwhile(Descriptor(ends[1]));
  char byte;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "waits until nobody can write any more";
  close_meanwhile(Descriptor());
}

TEST(MakeFolder, MakesWhatIsMissingAndSaysWhatIsInTheWay) {
  const data::TemporaryFolder folder;
  const fs::path inner = folder.path() / "a" / "b";
  make_folder(inner);
  make_folder(inner);
  EXPECT_TRUE(fs::is_directory(inner));
  write_file_atomically(inner / "file", "");
  EXPECT_ERROR(make_folder(inner / "file"), "b/file (Not a directory)");
  EXPECT_ERROR(make_folder(inner / "file" / "c"), "file/c (Not a directory)");
}

TEST(LockFolder, SaysWhenTheFolderCannotBeOpened) {
  EXPECT_ERROR(lock_folder("/dev/null"), "/dev/null (Not a directory)");
  EXPECT_TRUE(lock_folder("/nowhere"));
}

TEST(CacheFolder, IgnoresVariablesThatAreEmptyOrRelative) {
  const auto found = [](const char* cache, const char* home) {
    const data::ScopedVariable a("XDG_CACHE_HOME", cache), b("HOME", home);
    return cache_folder().string();
  };
  EXPECT_EQ(found("/cache", "/home/me"), "/cache/crossbow");
  for (const char* unset : {(const char*)nullptr, "", "cache", "./cache"}) {
    EXPECT_EQ(found(unset, "/home/me"), "/home/me/.cache/crossbow");
    EXPECT_EQ(found(unset, unset), "");
  }
}

}  // namespace
}  // namespace crossbow
