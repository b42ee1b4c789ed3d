#include "data/tar.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace crossbow::data {
namespace {

std::string name_of(archive_entry* member) {
  for (const char* name : {archive_entry_pathname_utf8(member), archive_entry_pathname(member)}) {
    if (name) return name;
  }
  return {};
}

/// Nothing if the member is no link.
std::optional<std::string> link_of(archive_entry* member) {
  for (const char* to : {archive_entry_hardlink_utf8(member), archive_entry_hardlink(member),
                         archive_entry_symlink_utf8(member), archive_entry_symlink(member)}) {
    if (to) return to;
  }
  return std::nullopt;
}

/// Reads one member after the other, by libarchive.
class Members {
 public:
  explicit Members(const FileBytes& file)
      : file_(file), archive_(archive_read_new(), archive_read_free) {
    if (!archive_) throw std::bad_alloc();
    archive_read_support_format_tar(archive_.get());
    archive_read_set_format_option(archive_.get(), "tar", "read_concatenated_archives", "1");
    check(archive_read_open2(archive_.get(), this, nullptr, read, skip, nullptr));
  }

  /// Null at the end, and where the archive is damaged.
  archive_entry* next() {
    archive_entry* member = nullptr;
    const int result = archive_read_next_header(archive_.get(), &member);
    if (!check(result)) return nullptr;
    begin_ = archive_read_header_position(archive_.get());
    return member;
  }
  /// Empty if there is none.
  const std::string& damage() const { return damage_; }
  /// Where the member's first header is; after damage, the last good one's.
  int64_t begin() const { return begin_; }
  /// Where what it holds begins, as long as nothing of that is read.
  int64_t contents() const { return archive_filter_bytes(archive_.get(), 0); }
  /// Whether there are so many bytes.
  bool read_contents(std::span<char> bytes) {
    const la_ssize_t n = archive_read_data(archive_.get(), bytes.data(), bytes.size());
    if (error_) std::rethrow_exception(error_);
    return n == std::ssize(bytes);
  }

 private:
  /// What the file throws must not cross the library.
  static la_ssize_t read(archive*, void* self, const void** data) {
    auto& m = *static_cast<Members*>(self);
    const auto size = std::min<int64_t>(std::ssize(m.buffer_), m.file_.size - m.at_);
    try {
      m.file_.read(m.at_, std::span(m.buffer_).first(static_cast<size_t>(size)));
    } catch (...) {
      m.error_ = std::current_exception();
      return ARCHIVE_FATAL;
    }
    m.at_ += size;
    *data = m.buffer_.data();
    return size;
  }
  static la_int64_t skip(archive*, void* self, la_int64_t bytes) {
    auto& m = *static_cast<Members*>(self);
    const int64_t skipped = std::min<int64_t>(bytes, m.file_.size - m.at_);
    m.at_ += skipped;
    return skipped;
  }
  bool check(int result) {
    if (error_) std::rethrow_exception(error_);
    if (result == ARCHIVE_EOF) return false;
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return true;
    const char* const reason = archive_error_string(archive_.get());
    damage_ =
        fmt::format("at byte {} or behind it is damaged, or no tar archive ({}): get it again",
                    begin_, reason ? reason : "its end is missing");
    return false;
  }

  const FileBytes& file_;
  int64_t at_ = 0, begin_ = 0;
  std::array<uint8_t, 1 << 14> buffer_;
  std::exception_ptr error_;
  std::string damage_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

/// By its first bytes: libarchive would unpack some of it, and take the memory that it asks for.
bool is_compressed(const FileBytes& file) {
  std::array<uint8_t, 10> first{};
  file.read(0, std::span(first).first(static_cast<size_t>(std::min<int64_t>(file.size, 10))));
  const std::string_view magic(reinterpret_cast<const char*>(first.data()), first.size());
  constexpr std::string_view kGzip = "\x1F\x8B", kZstd = "\x28\xB5\x2F\xFD";
  constexpr std::string_view kXz("\xFD\x37zXZ\0", 6);
  // The name of a tar's first member may begin with BZh, too.
  const bool bzip2 = magic.starts_with("BZh") && magic.ends_with("1AY&SY");
  return bzip2 || magic.starts_with(kGzip) || magic.starts_with(kZstd) || magic.starts_with(kXz);
}

/// Without it a file that was cut between two members would look whole.
bool has_end_mark(const FileBytes& file) {
  constexpr int64_t kEnd = 1024;  // bytes, all 0
  if (file.size < kEnd) return false;
  std::array<uint8_t, kEnd> end;
  file.read(file.size - kEnd, end);
  return std::ranges::count(end, 0) == kEnd;
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

int64_t read_class(Members& members, int64_t size) {
  std::array<char, 32> text{};
  if (size > std::ssize(text) ||
      !members.read_contents(std::span(text).first(static_cast<size_t>(size)))) {
    fail("it is no number");
  }
  std::string_view number(text.data(), static_cast<size_t>(size));
  while (!number.empty() && (number.back() == '\n' || number.back() == '\r')) {
    number.remove_suffix(1);
  }
  const auto label = number_of<int64_t>(number);
  if (!label || *label < 0) {
    fail("'{}' is no number of a class, from 0 on", printable(number));
  }
  return *label;
}

/// The members of the sample that is being read.
struct Sample {
  std::string key;
  int64_t begin = 0;  // of the first of them
  std::optional<TarPicture> picture;
  std::optional<int64_t> label;
  bool bad = false;  // and reported

  bool is_whole() const { return picture && label; }
  TarPicture whole() const {
    if (!picture) fail("it has a class, but no picture (jpg, jpeg or png)");
    if (!label) fail("it has a picture, but no class (cls)");
    return {picture->begin, picture->size, *label};
  }
};

/// Refuses what a program that unpacks the archive would have to fear, and what is not in it.
void expect_plain(archive_entry* member, const std::string& name) {
  if (const auto to = link_of(member)) {
    fail("it is a link to '{}': write the tar anew with tar --dereference --hard-dereference",
         printable(*to));
  }
  if (archive_entry_filetype(member) != AE_IFREG) {
    fail("it is a device or a pipe: write the tar anew without it");
  }
  if (!stays_within(name)) {
    fail(
        "its name leads out of the archive: write the tar anew with names that do not begin "
        "with / or contain ..");
  }
  if (archive_entry_size(member) < 0) fail("its size is negative: get the archive again");
  if (archive_entry_sparse_count(member) > 0) fail("it has holes: write the tar anew without -S");
}

class Scan {
 public:
  Scan(const FileBytes& file, const std::function<void(const TarPicture&)>& picture,
       const std::function<void(int64_t, const std::string&)>& bad)
      : file_(file), picture_(picture), bad_(bad), members_(file) {}

  void run() {
    while (archive_entry* const member = members_.next()) {
      if (archive_entry_filetype(member) != AE_IFDIR && !take(member)) return;
    }
    const std::string damage = !members_.damage().empty() ? members_.damage()
                               : has_end_mark(file_)
                                   ? ""
                                   : "it is cut short, as it has no end mark: get it again";
    // What the last sample lacks may lie behind the damage.
    if (damage.empty() || sample_.is_whole()) end_sample();
    if (!damage.empty()) bad_(members_.begin(), damage);
  }

 private:
  /// False if the archive ends within the member.
  bool take(archive_entry* member) {
    const std::string name = name_of(member);
    const auto [key, extension] = split(name);
    const bool labels = extension == "cls";
    if (!labels && !is_picture(extension)) return true;
    const int64_t begin = members_.begin();
    if (key != sample_.key) {
      end_sample();
      sample_.key = key;
      sample_.begin = begin;
    }
    if (sample_.bad) return true;
    bool ends = false;
    try {
      expect_plain(member, name);
      const int64_t size = archive_entry_size(member);
      ends = size > file_.size - members_.contents();
      if (ends) fail("the archive ends within its {} bytes: get it again", size);
      if (labels ? sample_.label.has_value() : sample_.picture.has_value()) {
        fail("the sample has two of its kind");
      }
      if (labels) {
        sample_.label = read_class(members_, size);
      } else {
        sample_.picture = {members_.contents(), size, 0};
      }
    } catch (const Error& e) {
      sample_.bad = true;
      bad_(begin, fmt::format("member '{}', which begins at byte {}: {}", printable(name), begin,
                              e.what()));
    }
    return !ends;
  }

  void end_sample() {
    const Sample sample = std::exchange(sample_, {});
    if (sample.bad || !(sample.picture || sample.label)) return;
    try {
      picture_(sample.whole());
    } catch (const Error& e) {
      bad_(sample.begin, fmt::format("sample '{}', which begins at byte {}: {}",
                                     printable(sample.key), sample.begin, e.what()));
    }
  }

  const FileBytes& file_;
  const std::function<void(const TarPicture&)>& picture_;
  const std::function<void(int64_t, const std::string&)>& bad_;
  Members members_;
  Sample sample_;
};

}  // namespace

void scan_tar(const FileBytes& file, const std::function<void(const TarPicture&)>& picture,
              const std::function<void(int64_t, const std::string&)>& bad) {
  if (is_compressed(file)) {
    return bad(0, "it is compressed, so that its members cannot be read in any order: unpack it");
  }
  Scan(file, picture, bad).run();
}

}  // namespace crossbow::data
