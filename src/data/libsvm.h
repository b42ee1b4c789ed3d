// The text format of LIBSVM (Chang & Lin 2011): a line a row, `label index:value index:value …`,
// with ascending indices; `label,label,…` where a row has a set of labels, which may be empty. A
// `#` begins a comment.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "data/source.h"

namespace crossbow::data {

/// Rows one after the other, with the labels and indices that the file gives them.
struct LibsvmRows {
  std::vector<int32_t> labels, indices;
  std::vector<float> values;  // one an index
  /// By row: where its labels and its values end.
  std::vector<int64_t> label_ends, value_ends;
  int32_t least_index = std::numeric_limits<int32_t>::max(), largest_index = -1;  // of all rows
  bool label_sets = false;         // some row has several labels
  int64_t line_without_label = 0;  // the first; 0 if there is none

  int64_t size() const { return static_cast<int64_t>(value_ends.size()); }
};

/// Appends the rows of whole lines; lines with nothing in them are none. Throws Error, "line N:
/// reason", for what is no such row; the first line has the number `first_line`.
void parse_libsvm(std::string_view text, int64_t first_line, LibsvmRows& rows);

/// A file's rows, in pieces, in its order. Reads and parses on several threads.
std::vector<LibsvmRows> read_libsvm(const Path& path, const OpenOptions& options);

}  // namespace crossbow::data
