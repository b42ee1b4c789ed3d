#include "data/picture_index.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/file.h"
#include "data/image.h"
#include "data/tfrecord.h"

namespace crossbow::data {
namespace {

constexpr std::string_view kMagic = "crossbow pictures 1\n";

bool is_valid(const Names& names, const std::vector<PictureEntry>& entries) {
  constexpr uint64_t kFarthest = uint64_t{1} << 62;
  return std::ranges::is_sorted(entries, {}, &PictureEntry::file) &&
         std::ranges::all_of(entries, [&](const PictureEntry& e) {
           return e.file < names.size() && e.offset < kFarthest && e.length <= kLargestPicture &&
                  uint64_t{e.begin} + e.size <= e.length;
         });
}

/// The folder of the set.
bool stay_within(const Names& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (!stays_within(names[i])) return false;
  }
  return true;
}

bool is_valid(const PictureList& list, Container container, size_t classes) {
  const size_t pictures = container == Container::files ? list.files.size() : list.entries.size();
  return pictures == list.labels.size() && is_valid(list.files, list.entries) &&
         (container != Container::files || list.entries.empty()) && stay_within(list.files) &&
         std::ranges::all_of(list.labels, [&](int32_t label) {
           return label >= 0 && static_cast<size_t>(label) < classes;
         });
}

}  // namespace

void Names::add(std::string_view name) {
  text_ += name;
  ends_.push_back(text_.size());
}

std::string_view Names::operator[](size_t i) const {
  const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(text_).substr(begin, ends_[i] - begin);
}

/// Both go through the parts of an index in the same order.
class IndexWriter {
 public:
  std::vector<uint8_t> bytes{kMagic.begin(), kMagic.end()};

  template <typename T>
  void array(const std::vector<T>& values) {
    number(values.size());
    append(values.data(), values.size() * sizeof(T));
  }
  void number(uint64_t n) { append(&n, sizeof n); }
  void names(const Names& names) {
    number(names.text_.size());
    append(names.text_.data(), names.text_.size());
    array(names.ends_);
  }

 private:
  void append(const void* data, size_t size) {
    const auto* const begin = static_cast<const uint8_t*>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  }
};

class IndexReader {
 public:
  explicit IndexReader(std::span<const uint8_t> bytes) : left_(bytes) {}

  /// Whether all could be read, and nothing follows.
  bool at_end() const { return good_ && left_.empty(); }

  template <typename T>
  void array(std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const uint64_t n = number();
    if (!good_ || n > left_.size() / sizeof(T)) {
      good_ = false;
      return;
    }
    values.resize(n);
    take(values.data(), n * sizeof(T));
  }
  uint64_t number() {
    uint64_t n = 0;
    take(&n, sizeof n);
    return n;
  }
  void names(Names& names) {
    const uint64_t n = number();
    if (!good_ || n > left_.size()) {
      good_ = false;
      return;
    }
    names.text_.resize(n);
    take(names.text_.data(), n);
    array(names.ends_);
    good_ = good_ && std::ranges::is_sorted(names.ends_) &&
            (names.ends_.empty() ? 0 : names.ends_.back()) == n;
  }

 private:
  void take(void* to, size_t size) {
    good_ = good_ && size <= left_.size();
    if (!good_ || size == 0) return;
    std::memcpy(to, left_.data(), size);
    left_ = left_.subspan(size);
  }

  std::span<const uint8_t> left_;
  bool good_ = true;  // so far
};

std::vector<uint8_t> to_bytes(const PictureIndex& index) {
  IndexWriter out;
  out.number(static_cast<uint64_t>(index.container));
  Names classes;
  for (const std::string& name : index.classes) classes.add(name);
  out.names(classes);
  for (const PictureList* list : {&index.train, &index.test}) {
    out.names(list->files);
    out.array(list->entries);
    out.array(list->labels);
  }
  out.names(index.sources);
  out.array(index.stamps);
  const uint32_t crc = masked_crc(out.bytes);
  for (int byte = 0; byte < 4; ++byte) out.bytes.push_back(static_cast<uint8_t>(crc >> 8 * byte));
  return std::move(out.bytes);
}

std::optional<PictureIndex> parse_index(std::span<const uint8_t> bytes) {
  if (bytes.size() < kMagic.size() + sizeof(uint32_t)) return std::nullopt;
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return std::nullopt;
  const auto body = bytes.first(bytes.size() - sizeof(uint32_t));
  uint32_t crc;
  std::memcpy(&crc, body.data() + body.size(), sizeof crc);
  if (crc != masked_crc(body)) return std::nullopt;

  IndexReader in(body.subspan(kMagic.size()));
  PictureIndex index;
  const uint64_t container = in.number();
  Names classes;
  in.names(classes);
  for (PictureList* list : {&index.train, &index.test}) {
    in.names(list->files);
    in.array(list->entries);
    in.array(list->labels);
  }
  in.names(index.sources);
  in.array(index.stamps);
  if (!in.at_end() || container > static_cast<uint64_t>(Container::tar)) return std::nullopt;
  index.container = static_cast<Container>(container);
  for (size_t i = 0; i < classes.size(); ++i) index.classes.emplace_back(classes[i]);
  if (index.sources.size() != index.stamps.size()) return std::nullopt;
  for (const PictureList* list : {&index.train, &index.test}) {
    if (!is_valid(*list, index.container, classes.size())) return std::nullopt;
  }
  return index;
}

}  // namespace crossbow::data
