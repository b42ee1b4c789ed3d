#include "data/conversion.h"

#include <fmt/format.h>

#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/class_folders.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJob = ".crossbow-convert";
constexpr std::string_view kWhole = "whole\n";
constexpr size_t kLongestJob = size_t{1} << 20;
/// A folder of lists, so that each is whole when its file is, and none is written twice.
constexpr const char* kLeftOut = ".crossbow-left-out";
constexpr size_t kLongestList = size_t{256} << 20;

/// Others than what a process that was killed may have begun.
bool holds_files(const fs::path& folder) {
  const std::string begun = fmt::format("{}.crossbow-", kJob);
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(begun)) return true;
  }
  if (error) fail("cannot read the folder {} ({})", folder.string(), error.message());
  return false;
}

}  // namespace

Conversion::Conversion(fs::path folder, std::string job)
    : folder_(std::move(folder)), job_(std::move(job)) {
  const fs::path path = folder_ / kJob;
  if (type_of(path) != fs::file_type::not_found) {
    if (!read_text_file(path, kLongestJob).starts_with(job_)) {
      fail("{} holds what another conversion has written: remove it, or name another folder",
           folder_.string());
    }
  } else {
    if (is_folder(folder_) && holds_files(folder_)) {
      fail("{} is not empty: remove it, or name another folder", folder_.string());
    }
    make_folder(folder_);
    write_file_atomically(path, job_);
  }
  make_folder(folder_ / kLeftOut);
}

void Conversion::set_left_out(const std::string& file,
                              const std::vector<std::string>& reasons) const {
  std::string lines;
  for (const std::string& reason : reasons) lines += printable(reason) + '\n';
  const fs::path path = folder_ / kLeftOut / file;
  std::error_code ignored;
  if (lines.empty()) {
    fs::remove(path, ignored);
  } else {
    write_file_atomically(path, lines);
  }
}

std::vector<std::string> Conversion::left_out(const std::string& file) const {
  const fs::path path = folder_ / kLeftOut / file;
  if (type_of(path) == fs::file_type::not_found) return {};
  std::vector<std::string> reasons;
  std::istringstream lines(read_text_file(path, kLongestList));
  for (std::string line; std::getline(lines, line);) reasons.push_back(line);
  return reasons;
}

void Conversion::finish() const {
  write_file_atomically(folder_ / kJob, job_ + std::string(kWhole));
}

void expect_converted(const fs::path& folder) {
  const fs::path path = folder / kJob;
  if (type_of(path) == fs::file_type::not_found) return;
  if (read_text_file(path, kLongestJob).ends_with(kWhole)) return;
  fail("{} is what `crossbow convert` has begun, and was interrupted: call that again",
       folder.string());
}

}  // namespace crossbow::data
