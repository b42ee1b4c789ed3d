#include "train/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "train/record_json.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

/// The next line of `text` from `begin`, and whether it ends in a line break.
std::pair<std::string_view, bool> line_at(std::string_view text, size_t begin) {
  const size_t end = text.find('\n', begin);
  return {text.substr(begin, end - begin), end != text.npos};
}

/// Adds the change that `line` describes to `changes`. Returns why it cannot, or an empty text.
std::string add_change(std::string_view line, std::vector<LearnerChange>& changes) {
  nlohmann::json json;
  try {
    json = parse_json(line);
  } catch (const Error&) {
    return "it is no change of learners";
  }
  try {
    const LearnerChange change = change_from_json(json);
    if (!changes.empty() && change.place() < changes.back().place()) {
      return "it lies before the change above it";
    }
    changes.push_back(change);
    return "";
  } catch (const nlohmann::json::exception&) {
    return "it is no change of learners";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

LineFile::LineFile(const fs::path& path)
    : path_(path),
      // Without O_NONBLOCK a pipe in its place could keep the process waiting for ever.
      file_(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666)) {
  if (file_.get() < 0) fail_to("open");
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail_to("open");
  if (!S_ISREG(status.st_mode)) {
    fail("{} is not a regular file: move it away, and the run makes one", path.string());
  }
  bytes_ = status.st_size;
  // The name of a new file must survive a power cut; not every file system lets a folder be synced.
  const Descriptor folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

std::string LineFile::read() const {
  std::string text(static_cast<size_t>(bytes_), '\0');
  read_at(file_, 0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}, path_);
  return text;
}

void LineFile::cut(int64_t bytes) {
  if (bytes == bytes_) return;
  if (::ftruncate(file_.get(), bytes) != 0) fail_to("write");
  bytes_ = bytes;
}

void LineFile::append(std::string_view line) {
  if (!write_all(file_, {reinterpret_cast<const uint8_t*>(line.data()), line.size()})) {
    const int error = errno;
    // If this fails too, whoever goes on with the run cuts the file back.
    [[maybe_unused]] const int taken_back = ::ftruncate(file_.get(), bytes_);
    errno = error;
    fail_to("write");
  }
  bytes_ += static_cast<int64_t>(line.size());
}

void LineFile::sync() {
  if (::fsync(file_.get()) != 0) fail_to("write");
}

void LineFile::fail_to(const char* what) const {
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  fail("cannot {} {} ({}){}", what, path_.string(), std::strerror(errno),
       full ? ": make room" : "");
}

void LearnerLog::read(const std::function<void(std::string_view)>& warn) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path_, error))) return;
  LineFile file(path_);
  const std::string text = file.read();
  for (size_t begin = 0; begin < text.size();) {
    const auto [line, whole] = line_at(text, begin);
    const size_t next = begin + line.size() + 1;
    const std::string wrong = whole ? add_change(line, changes_) : "it is cut off";
    if (wrong.empty()) {
      begin = next;
      continue;
    }
    if (next < text.size()) {
      fail(
          "{}: line {}: {}; put the file back as it was, or move it away to go on without the "
          "changes that it holds",
          path_.string(), changes_.size() + 1, wrong);
    }
    warn(fmt::format("{}: the last line is damaged and was dropped ({})", path_.string(), wrong));
    file.cut(static_cast<int64_t>(begin));
    file.sync();
    return;
  }
}

void LearnerLog::append(const LearnerChange& change) {
  LineFile file(path_);
  file.append(to_json(change).dump() + '\n');
  file.sync();
  changes_.push_back(change);
}

}  // namespace crossbow
