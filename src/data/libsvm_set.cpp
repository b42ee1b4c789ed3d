#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

#include "core/error.h"
#include "core/text.h"
#include "data/held_out.h"
#include "data/libsvm.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr int64_t kMostClasses = 1 << 20;

using Pieces = std::vector<LibsvmRows>;

/// What is found out about the rows of both parts together.
struct Contents {
  std::vector<int32_t> labels;  // ascending: label i is class i
  int32_t least_index = std::numeric_limits<int32_t>::max(), largest_index = -1;
  bool label_sets = false;

  void add_labels(const std::vector<int32_t>& all) {
    std::vector<int32_t> found;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found), [&](int32_t label) {
      return !std::binary_search(labels.begin(), labels.end(), label);
    });
    if (found.empty()) return;
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::vector<int32_t> both;
    std::set_union(labels.begin(), labels.end(), found.begin(), found.end(),
                   std::back_inserter(both));
    labels = std::move(both);
  }
};

void look_through(const Path& path, const Pieces& pieces, Contents& contents) {
  int64_t rows = 0;
  for (const LibsvmRows& piece : pieces) {
    rows += piece.size();
    contents.add_labels(piece.labels);
    if (static_cast<int64_t>(contents.labels.size()) > kMostClasses) {
      fail("{} has more than {} different labels: are they classes?", path.string(),
           grouped(kMostClasses));
    }
    contents.least_index = std::min(contents.least_index, piece.least_index);
    contents.largest_index = std::max(contents.largest_index, piece.largest_index);
    contents.label_sets |= piece.label_sets;
  }
  if (rows == 0) fail("{} holds no rows", path.string());
}

void expect_labels(const Path& path, const Pieces& pieces) {
  for (const LibsvmRows& piece : pieces) {
    if (piece.line_without_label > 0) {
      fail("{}, line {}: it has no label", path.string(), piece.line_without_label);
    }
  }
}

/// Appends rows of pieces, with classes for labels and indices from 0.
class Appender {
 public:
  explicit Appender(const Contents& contents)
      : names_(contents.labels),
        sets_(contents.label_sets),
        first_index_(contents.least_index == 0 ? 0 : 1) {}

  /// Rows from `begin` up to `end`, at once.
  void append(const LibsvmRows& piece, int64_t begin, int64_t end) {
    if (begin == end) return;
    append_classes(piece, begin, end);
    const auto values = part(piece.values, piece.value_ends, begin, end);
    const auto indices = part(piece.indices, piece.value_ends, begin, end);
    const size_t before = rows.columns.size();
    rows.values.insert(rows.values.end(), values.begin(), values.end());
    rows.columns.insert(rows.columns.end(), indices.begin(), indices.end());
    const int32_t first_index = first_index_;  // which stores to columns cannot change
    for (int32_t& column : std::span(rows.columns).subspan(before)) column -= first_index;
    const auto ends = std::span(piece.value_ends)
                          .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const int64_t shift = std::ssize(rows.values) - ends.back();
    for (const int64_t row_end : ends) rows.ends.push_back(row_end + shift);
  }

  std::shared_ptr<const Split> split() {
    return keep_in_memory(std::move(rows), {std::move(classes_), std::move(class_ends_)});
  }

  Rows rows;

 private:
  void append_classes(const LibsvmRows& piece, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto labels = part(piece.labels, piece.label_ends, row);
      for (const int32_t label : labels) {
        const auto found = std::lower_bound(names_.begin(), names_.end(), label);
        classes_.push_back(static_cast<int32_t>(found - names_.begin()));
      }
      if (!sets_) continue;
      std::sort(classes_.end() - std::ssize(labels), classes_.end());
      class_ends_.push_back(std::ssize(classes_));
    }
  }

  std::vector<int32_t> classes_;
  std::vector<int64_t> class_ends_;
  const std::vector<int32_t>& names_;
  const bool sets_;
  const int32_t first_index_;
};

/// Takes the rows over from the pieces, whose memory is given back one after the other. With
/// `held_out` those for the test go there.
void take(Pieces pieces, Appender& rows, Appender* held_out) {
  int64_t all = 0;
  for (const LibsvmRows& piece : pieces) all += piece.size();
  HeldOut test(all);
  size_t values = 0;
  for (const LibsvmRows& piece : pieces) values += piece.values.size();
  rows.rows.ends.reserve(static_cast<size_t>(all));
  rows.rows.columns.reserve(values);
  rows.rows.values.reserve(values);
  for (LibsvmRows& piece : pieces) {
    const LibsvmRows taken = std::move(piece);
    int64_t begin = 0;
    for (int64_t row = 0; held_out && row < taken.size(); ++row) {
      if (!test.takes_next()) continue;
      rows.append(taken, begin, row);
      held_out->append(taken, row, row + 1);
      begin = row + 1;
    }
    rows.append(taken, begin, taken.size());
  }
}

std::shared_ptr<const Dataset> open_libsvm(const Path& path, const OpenOptions& options) {
  const Path test = test_file(path);
  Pieces pieces = read_libsvm(path, options);
  Pieces test_pieces;
  if (!test.empty()) test_pieces = read_libsvm(test, options);

  Contents contents;
  look_through(path, pieces, contents);
  if (!test.empty()) look_through(test, test_pieces, contents);
  if (!contents.label_sets) {
    expect_labels(path, pieces);
    expect_labels(test, test_pieces);
  }
  if (contents.largest_index < 0) fail("{}: no row has a feature", path.string());

  Info info{.name = "libsvm"};
  info.image = {contents.largest_index + (contents.least_index == 0 ? 1 : 0)};
  info.classes = static_cast<int64_t>(contents.labels.size());
  for (const int32_t label : contents.labels) info.class_names.push_back(std::to_string(label));
  if (contents.label_sets) info.label = LabelKind::class_set;
  Appender rows(contents), test_rows(contents);
  take(std::move(pieces), rows, test.empty() ? &test_rows : nullptr);
  if (!test.empty()) {
    take(std::move(test_pieces), test_rows, nullptr);
  } else {
    info.note = HeldOut::note(path, test_rows.rows.size());
  }
  const auto first = rows.split(), second = test_rows.split();
  info.room = room_of(*first, *second, info.image[0]);
  return std::make_shared<Dataset>(Dataset{std::move(info), first, second});
}

}  // namespace

const Source& libsvm_source() {
  static const Source source{
      .entry = {.name = "libsvm",
                .about = "rows of numbers in LIBSVM's text format, plain or packed",
                .source = "get sets from www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets",
                .files = {"FILE (gzip, bzip2 or plain)", "FILE.t with test rows, or none"},
                .takes = "FILE",
                .rows = true},
      .open = open_libsvm,
      .found = [](const Path&) { return true; }};  // opening says what is wrong with the file
  return source;
}

}  // namespace crossbow::data
