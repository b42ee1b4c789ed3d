#include "data/libsvm.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "data/text_pieces.h"

namespace crossbow::data {
namespace {

constexpr int64_t kLargestIndex = std::numeric_limits<int32_t>::max() - 1;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/// One line, from left to right.
class Line {
 public:
  Line(int64_t number, const char* begin, const char* end)
      : number_(number), at_(begin), end_(end) {}

  void parse(LibsvmRows& rows) {
    skip_blanks();
    if (ends()) return;
    const size_t before = rows.labels.size();
    if (!is_pair(word_at(at_))) parse_labels(rows);
    const size_t labels = rows.labels.size() - before;
    if (labels == 0 && rows.line_without_label == 0) rows.line_without_label = number_;
    rows.label_sets |= labels > 1;
    parse_pairs(rows);
    rows.label_ends.push_back(static_cast<int64_t>(rows.labels.size()));
    rows.value_ends.push_back(static_cast<int64_t>(rows.values.size()));
  }

 private:
  bool ends() const { return at_ == end_ || *at_ == '#'; }
  void skip_blanks() {
    while (at_ < end_ && is_blank(*at_)) ++at_;
  }
  bool ends_word(const char* p) const { return p == end_ || is_blank(*p) || *p == '#'; }
  std::string_view word_at(const char* begin) const {
    const char* p = begin;
    while (!ends_word(p)) ++p;
    return {begin, static_cast<size_t>(p - begin)};
  }
  static bool is_pair(std::string_view word) { return word.find(':') != word.npos; }
  [[noreturn]] void refuse_pair(std::string_view what, const char* pair) const {
    refuse(what, word_at(pair));
  }
  [[noreturn]] static void refuse(std::string_view what, std::string_view said) {
    constexpr size_t kShown = 40;
    fail("{} '{}'{}", what, printable(said.substr(0, kShown)), said.size() > kShown ? "…" : "");
  }

  void parse_labels(LibsvmRows& rows) {
    std::string_view labels = word_at(at_);
    at_ += labels.size();
    skip_blanks();
    for (;;) {
      const std::string_view label = labels.substr(0, labels.find(','));
      rows.labels.push_back(parse_label(label));
      if (label.size() == labels.size()) return;
      labels.remove_prefix(label.size() + 1);
    }
  }

  /// from_chars knows no plus; one before a minus is left for it to refuse.
  static const char* past_plus(const char* p, const char* end) {
    return end - p > 1 && p[0] == '+' && p[1] != '-' ? p + 1 : p;
  }

  static int32_t parse_label(std::string_view text) {
    const char* const end = text.data() + text.size();
    const char* const begin = past_plus(text.data(), end);
    int32_t whole = 0;
    std::from_chars_result result = std::from_chars(begin, end, whole);
    if (result.ptr == end && result.ec == std::errc() && begin < end) return whole;
    double number = 0;
    result = std::from_chars(begin, end, number);
    if (result.ptr != end || result.ec != std::errc() || begin == end) refuse("no label:", text);
    if (number != std::floor(number) || std::abs(number) > kLargestIndex) {
      refuse("classes are whole numbers, and not the label", text);
    }
    return static_cast<int32_t>(number);
  }

  void parse_pairs(LibsvmRows& rows) {
    const size_t first = rows.indices.size();
    int64_t before = -1;
    while (!ends()) {
      const char* const pair = at_;
      const int64_t index = parse_index(pair);
      if (index <= before) {
        fail("the index {} follows {}: indices ascend, each once", index, before);
      }
      before = index;
      rows.indices.push_back(static_cast<int32_t>(index));
      rows.values.push_back(parse_value(pair));
      skip_blanks();
    }
    if (before < 0) return;
    rows.least_index = std::min(rows.least_index, rows.indices[first]);
    rows.largest_index = std::max(rows.largest_index, rows.indices.back());
  }

  /// Moves behind its colon.
  int64_t parse_index(const char* pair) {
    int64_t index = 0;
    const char* p = at_;
    for (; p < end_ && *p >= '0' && *p <= '9' && index <= kLargestIndex; ++p) {
      index = 10 * index + (*p - '0');
    }
    if (index > kLargestIndex) refuse_pair("a larger index than can be held:", pair);
    if (p == at_ || p == end_ || *p != ':') refuse_pair("no index:value:", pair);
    at_ = p + 1;
    return index;
  }

  float parse_value(const char* pair) {
    if (end_ - at_ >= 1 && *at_ >= '0' && *at_ <= '9' && ends_word(at_ + 1)) {  // most often 1
      return static_cast<float>(*at_++ - '0');
    }
    at_ = past_plus(at_, end_);
    float value = 0;
    std::from_chars_result result = std::from_chars(at_, end_, value);
    if (result.ec == std::errc::result_out_of_range) {  // too small for a float, or too large
      double wide = 0;
      result = std::from_chars(at_, end_, wide);
      value = static_cast<float>(wide);
    }
    if (result.ec == std::errc::result_out_of_range || !std::isfinite(value)) {
      refuse_pair("no number that a float can hold:", pair);
    }
    const char* const p = result.ptr;
    if (result.ec != std::errc() || !ends_word(p)) {
      refuse_pair("no index:value:", pair);
    }
    at_ = p;
    return value;
  }

  const int64_t number_;
  const char* at_;
  const char* const end_;
};

}  // namespace

void parse_libsvm(std::string_view text, int64_t first_line, LibsvmRows& rows) {
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const auto pairs = static_cast<size_t>(std::count(text.begin(), text.end(), ':'));
  rows.labels.reserve(rows.labels.size() + lines);
  rows.label_ends.reserve(rows.label_ends.size() + lines);
  rows.value_ends.reserve(rows.value_ends.size() + lines);
  rows.indices.reserve(rows.indices.size() + pairs);
  rows.values.reserve(rows.values.size() + pairs);
  for_each_line(text, first_line, [&](int64_t line, const char* begin, const char* end) {
    Line(line, begin, end).parse(rows);
  });
}

std::vector<LibsvmRows> read_libsvm(const Path& path, const OpenOptions& options) {
  return TextPieces<LibsvmRows>(path, parse_libsvm).read(options);
}

}  // namespace crossbow::data
