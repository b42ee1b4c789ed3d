// What an ordinary user is told where he may not look, or not write.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "core/file.h"
#include "data/dataset.h"
#include "data/files.h"
#include "plan/tuner.h"
#include "support/error_text.h"
#include "train/checkpoint.h"
#include "train/config.h"

namespace crossbow {
namespace {

/// What `call` fails with, in a process of "nobody" if this one's user may do everything.
std::string error_of_ordinary_user(const std::function<void()>& call) {
  if (::geteuid() != 0) return testing::error_of(call);
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    std::string error = "still root";
    if (::setgid(kNobody) == 0 && ::setuid(kNobody) == 0) error = testing::error_of(call);
    (void)!::write(ends[1], error.data(), error.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string error(4096, '\0');
  error.resize(static_cast<size_t>(std::max<ssize_t>(::read(ends[0], error.data(), 4096), 0)));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return error;
}

class Permissions : public ::testing::Test {
 protected:
  Permissions() {
    ::chmod(folder_.path().c_str(), 0755);
    std::filesystem::create_directories(closed_ / "run");
    write_file_atomically(file_, "text");
    ::chmod(closed_.c_str(), 0);
    ::chmod(file_.c_str(), 0);
  }
  ~Permissions() override { ::chmod(closed_.c_str(), 0700); }

  /// A sentence with the path and the reason, and no library's words.
  void expect_denied(const std::filesystem::path& path, const std::function<void()>& call) {
    const std::string error = error_of_ordinary_user(call);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, path.string(), error);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "Permission denied", error);
    EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, "filesystem error", error);
  }

  const data::TemporaryFolder folder_;
  const std::filesystem::path closed_ = folder_.path() / "closed", file_ = folder_.path() / "file";
};

TEST_F(Permissions, OfFoldersThatMayNotBeSearched) {
  const auto run = closed_ / "run";
  TrainOptions options;
  expect_denied(run, [&] { load_checkpoint(run, [](std::string_view) {}); });
  expect_denied(closed_, [&] { load_checkpoint(closed_, [](std::string_view) {}); });
  expect_denied(run, [&] { read_choices(run / "plan.json"); });
  expect_denied(run, [&] { apply_config_file(options, run / "config.toml"); });
  expect_denied(run, [&] { data::open_dataset("mnist:" + run.string()); });
  expect_denied(closed_, [&] { data::open_dataset("cifar10:" + closed_.string()); });
  expect_denied(closed_, [&] { data::open_dataset("imagefolder:" + closed_.string()); });
}

TEST_F(Permissions, OfFilesThatMayNotBeRead) {
  TrainOptions options;
  expect_denied(file_, [&] { load_checkpoint(file_, [](std::string_view) {}); });
  expect_denied(file_, [&] { read_choices(file_); });
  expect_denied(file_, [&] { apply_config_file(options, file_); });
}

TEST_F(Permissions, OfFoldersThatMayNotBeWritten) {
  expect_denied(folder_.path() / "new", [&] { write_file_atomically(folder_.path() / "new", ""); });
  expect_denied(closed_ / "new", [&] { write_file_atomically(closed_ / "new", ""); });
  expect_denied(closed_, [&] { lock_folder(closed_); });
}

}  // namespace
}  // namespace crossbow
