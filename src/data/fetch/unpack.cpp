#include "data/fetch/unpack.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>
#include <new>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;

class Archive {
 public:
  explicit Archive(const fs::path& path)
      : path_(path), from_(archive_read_new(), archive_read_free) {
    if (!from_) throw std::bad_alloc();
    archive_read_support_filter_gzip(from_.get());
    archive_read_support_format_tar(from_.get());
    constexpr size_t kBlock = 1 << 16;
    check(archive_read_open_filename(from_.get(), path.c_str(), kBlock));
  }

  /// The next member's path; empty after the last.
  std::string next() {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(from_.get(), &entry);
    if (result == ARCHIVE_EOF) return "";
    check(result);
    const char* name = archive_entry_pathname(entry);
    const std::string member = name ? name : "";
    const auto type = archive_entry_filetype(entry);
    const bool plain = (type == AE_IFREG || type == AE_IFDIR) && !archive_entry_hardlink(entry);
    if (member.empty() || !plain || !stays_within(member)) {
      fail("{} is not the archive it should be: its member '{}' {}", path_.string(), member,
           plain ? "leads out of it" : "is a link or a device");
    }
    return member;
  }
  /// How many of the member's next bytes are now in `piece`; 0 at its end.
  size_t read(std::span<uint8_t> piece) {
    const la_ssize_t n = archive_read_data(from_.get(), piece.data(), piece.size());
    check(n < 0 ? static_cast<int>(n) : ARCHIVE_OK);
    return static_cast<size_t>(n);
  }
  /// Of the archive itself.
  int64_t bytes_read() const { return archive_filter_bytes(from_.get(), -1); }

 private:
  void check(int result) {
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return;
    const char* reason = archive_error_string(from_.get());
    fail("cannot unpack {} ({})", path_.string(), reason ? reason : "out of memory");
  }

  const fs::path path_;
  const std::unique_ptr<archive, int (*)(archive*)> from_;
};

/// A file that is there when all of them are.
struct Unpacked {
  std::string name;
  std::unique_ptr<AtomicFile> file;
};

}  // namespace

void unpack(const fs::path& path, const Download& from, const fs::path& folder,
            const FetchProgress& progress) {
  Archive archive(path);
  std::vector<Unpacked> unpacked;
  std::vector<uint8_t> piece(1 << 18);
  for (std::string member; !(member = archive.next()).empty();) {
    const auto wanted = std::ranges::find_if(from.gives, [&](const SetFile& file) {
      return from.archive_folder + '/' + file.name == member;
    });
    if (wanted == from.gives.end()) continue;
    const auto same = [&](const Unpacked& other) { return other.name == wanted->name; };
    if (std::ranges::any_of(unpacked, same)) fail("{} has {} twice", path.string(), member);
    unpacked.push_back({wanted->name, std::make_unique<AtomicFile>(folder / wanted->name)});
    constexpr int64_t kMost = 1 << 20;  // of a file whose length is not known
    const int64_t limit = wanted->digest ? wanted->digest->bytes : kMost;
    int64_t bytes = 0;
    for (size_t n = 0; bytes <= limit && (n = archive.read(piece)) > 0;) {
      progress("unpacking", archive.bytes_read(), from.digest.bytes);
      unpacked.back().file->write(std::span(piece).first(n));
      bytes += static_cast<int64_t>(n);
    }
    if (bytes > limit || (wanted->digest && bytes < limit)) {
      fail("{} is not the archive it should be: {} has not {} bytes", path.string(), member,
           grouped(limit));
    }
  }
  for (const SetFile& file : from.gives) {
    const auto same = [&](const Unpacked& other) { return other.name == file.name; };
    if (file.digest && std::ranges::none_of(unpacked, same)) {
      fail("{} is not the archive it should be: it has no {}/{}", path.string(),
           from.archive_folder, file.name);
    }
  }
  for (const Unpacked& each : unpacked) each.file->commit();
}

}  // namespace crossbow::data
