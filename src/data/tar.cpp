#include "data/tar.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace crossbow::data {
namespace {

using Archive = std::unique_ptr<archive, int (*)(archive*)>;

[[noreturn]] void fail_as_damaged(const std::filesystem::path& path, archive* a) {
  const char* const reason = archive_error_string(a);
  fail("cannot read {}: {}", path.string(), reason ? reason : "it is no tar archive");
}

Archive open(const std::filesystem::path& path) {
  Archive a(archive_read_new(), archive_read_free);
  if (!a) throw std::bad_alloc();
  archive_read_support_format_tar(a.get());
  archive_read_set_format_option(a.get(), "tar", "read_concatenated_archives", "1");
  archive_read_support_filter_gzip(a.get());
  archive_read_support_filter_bzip2(a.get());
  archive_read_support_filter_xz(a.get());
  archive_read_support_filter_zstd(a.get());
  if (archive_read_open_filename(a.get(), path.c_str(), 1 << 16) != ARCHIVE_OK) {
    fail_as_damaged(path, a.get());
  }
  return a;
}

/// Or else a file that was cut between two members would look whole.
void expect_end(const std::filesystem::path& path) {
  constexpr int64_t kEnd = 1024;  // bytes, all 0
  const FileBytes file = bytes_of_file(path);
  std::vector<uint8_t> end(static_cast<size_t>(std::min(kEnd, file.size)));
  file.read(file.size - std::ssize(end), end);
  const bool whole = std::ssize(end) == kEnd && std::ranges::count(end, 0) == kEnd;
  if (!whole) fail("{} is cut short: it has no end mark; get it again", path.string());
}

std::string name_of(archive_entry* member) {
  for (const char* name : {archive_entry_pathname_utf8(member), archive_entry_pathname(member)}) {
    if (name) return name;
  }
  return {};
}

/// What the members of a sample have in common, and what follows its dot.
std::array<std::string_view, 2> split(std::string_view name) {
  const size_t folder = name.rfind('/');
  const size_t dot = name.find('.', folder == name.npos ? 0 : folder + 1);
  if (dot == name.npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool is_picture(std::string_view extension) {
  std::string lower(extension);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower == "jpg" || lower == "jpeg" || lower == "png";
}

int64_t read_class(archive* a, archive_entry* member) {
  std::array<char, 32> text;
  const int64_t size = archive_entry_size(member);
  int64_t label = -1;
  if (size > std::ssize(text) || archive_read_data(a, text.data(), text.size()) != size) {
    fail("it is no number");
  }
  std::string_view number(text.data(), static_cast<size_t>(size));
  while (!number.empty() && (number.back() == '\n' || number.back() == '\r')) {
    number.remove_suffix(1);
  }
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), label);
  if (error != std::errc{} || end != number.data() + number.size() || label < 0) {
    fail("'{}' is no number of a class, from 0 on", printable(number));
  }
  return label;
}

/// The members of the sample that is being read.
struct Sample {
  std::string key;
  std::optional<TarPicture> picture;
  std::optional<int64_t> label;

  bool empty() const { return !picture && !label; }
  TarPicture whole() const {
    if (!picture) fail("the sample has a class, but no picture (jpg, jpeg or png)");
    if (!label) fail("the sample has a picture, but no class (cls)");
    return {picture->begin, picture->size, *label};
  }
};

}  // namespace

void scan_tar(const std::filesystem::path& path,
              const std::function<void(const TarPicture&)>& picture) {
  const Archive a = open(path);
  Sample sample;
  std::string name;
  const auto naming = [&](const std::string& member, auto&& body) {
    try {
      body();
    } catch (const Error& e) {
      fail("{}, {}: {}", path.string(), printable(member), e.what());
    }
  };
  const auto end_sample = [&] {
    if (!sample.empty()) naming(sample.key, [&] { picture(sample.whole()); });
    sample = {};
  };
  for (;;) {
    archive_entry* member = nullptr;
    const int result = archive_read_next_header(a.get(), &member);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail_as_damaged(path, a.get());
    if (archive_filter_code(a.get(), 0) != ARCHIVE_FILTER_NONE) {
      fail("{} is compressed, so that its members cannot be read in any order: unpack it",
           path.string());
    }
    if (archive_entry_filetype(member) != AE_IFREG) continue;
    if (archive_entry_hardlink(member)) continue;
    name = name_of(member);
    const auto [key, extension] = split(name);
    const bool labels = extension == "cls";
    if (!labels && !is_picture(extension)) continue;
    if (key != sample.key) end_sample();
    sample.key = key;
    naming(name, [&] {
      if (archive_entry_sparse_count(member) > 0) fail("it has holes, which is not supported");
      if (labels ? sample.label.has_value() : sample.picture.has_value()) {
        fail("the sample has two of its kind");
      }
      if (labels) {
        sample.label = read_class(a.get(), member);
      } else {
        sample.picture = {archive_filter_bytes(a.get(), 0), archive_entry_size(member), 0};
      }
    });
  }
  end_sample();
  expect_end(path);
}

}  // namespace crossbow::data
