#include "data/picture_split.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "data/image.h"
#include "data/tfrecord.h"

namespace crossbow::data {
namespace {

/// A file is opened for each picture: a set has more of them than a process may keep open, and it
/// takes a hundredth of the time to decode one.
class PictureSplit final : public Split {
 public:
  PictureSplit(const Path& folder, Container container, PictureList list)
      : Split(std::move(list.labels)),
        folder_((folder / "").string()),
        container_(container),
        files_(std::move(list.files)),
        entries_(std::move(list.entries)),
        skipped_(std::move(list.skipped)) {}

  Sample sample(int64_t i, std::vector<uint8_t>* scratch) const override {
    const PictureEntry e = entry(i);
    const char* const path = path_of(e);
    const Descriptor file = open_regular_file(path);
    if (container_ == Container::files) {
      struct stat status {};
      ::fstat(file.get(), &status);
      if (static_cast<size_t>(status.st_size) > kLargestPicture)
        fail("{} is too large for a picture", path);
      scratch->resize(static_cast<size_t>(status.st_size));
      read_at(file, 0, *scratch, path);
      return EncodedPicture{*scratch};
    }
    const bool checked = container_ == Container::tfrecord;
    scratch->resize(e.length + static_cast<size_t>(checked ? kRecordTail : 0));
    naming_sample(*this, i, [&] {
      read_at(file, static_cast<int64_t>(e.offset), *scratch, path);
      if (checked) expect_intact(*scratch);
    });
    return EncodedPicture{std::span(*scratch).subspan(e.begin, e.size)};
  }
  bool in_memory() const override { return false; }

  std::string name_of(int64_t i) const override {
    const PictureEntry e = entry(i);
    const std::string path = path_of(e);
    if (container_ == Container::files) return path;
    const auto first = std::ranges::lower_bound(entries_, e.file, {}, &PictureEntry::file);
    const auto skipped = std::ranges::count_if(skipped_, [&](const Skipped& other) {
      return other.file == e.file && other.offset < e.offset;
    });
    const int64_t number = i - (first - entries_.begin()) + skipped;
    const bool record = container_ == Container::tfrecord;
    return fmt::format("{}, {} {}, which begins at byte {}", path, record ? "record" : "picture",
                       number, e.offset - (record ? kRecordHead : 0));
  }

  void expect(int64_t i) const override {
    const PictureEntry e = entry(i);
    const Descriptor file(::open(path_of(e), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) return;
    ::posix_fadvise(file.get(), static_cast<off_t>(e.offset), e.length, POSIX_FADV_WILLNEED);
  }

 private:
  PictureEntry entry(int64_t i) const {
    if (container_ == Container::files) return {.file = static_cast<uint32_t>(i)};
    return entries_[static_cast<size_t>(i)];
  }
  /// Valid until the thread's next call: what is made for each sample takes no memory of its own.
  const char* path_of(const PictureEntry& e) const {
    thread_local std::string path;
    path = folder_;
    path += files_[e.file];
    return path.c_str();
  }

  const std::string folder_;  // with what separates it from a name
  const Container container_;
  const Names files_;
  const std::vector<PictureEntry> entries_;
  const std::vector<Skipped> skipped_;
};

}  // namespace

std::shared_ptr<const Split> picture_split(const Path& folder, Container container,
                                           PictureList list) {
  return std::make_shared<PictureSplit>(folder, container, std::move(list));
}

}  // namespace crossbow::data
