#include "data/ratings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "data/text_pieces.h"

namespace crossbow::data {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// One line, from left to right.
class Line {
 public:
  Line(const char* begin, const char* end) : at_(begin), end_(end) { skip_blanks(); }

  bool is_empty() const { return at_ == end_; }
  bool has_digit() const { return std::any_of(at_, end_, is_digit); }

  Rating parse() {
    Rating rating{};
    rating.user = id("user");
    rating.item = id("item");
    rating.value = number<float>("rating");
    if (!std::isfinite(rating.value)) fail("a rating is a number, and not {}", rating.value);
    if (at_ < end_ && !separates()) refuse("rating");
    return rating;
  }

 private:
  void skip_blanks() {
    while (at_ < end_ && is_blank(*at_)) ++at_;
  }
  bool separates() const { return is_blank(*at_) || *at_ == ',' || *at_ == ';' || *at_ == ':'; }

  int64_t id(const char* what) {
    const char* const begin = at_;
    const auto id = number<int64_t>(what);
    if (id < 0) fail("{} {}: users and items are whole numbers from 0 on", what, id);
    const char* const last = at_;
    skip_blanks();
    if (end_ - at_ >= 2 && at_[0] == ':' && at_[1] == ':') {
      at_ += 2;
    } else if (at_ < end_ && (*at_ == ',' || *at_ == ';')) {
      ++at_;
    } else if (at_ == last && at_ < end_) {
      at_ = begin;
      refuse(what);
    }
    skip_blanks();
    return id;
  }

  template <typename T>
  T number(const char* what) {
    T value{};
    const auto [stop, error] = std::from_chars(at_, end_, value);
    if (error != std::errc()) refuse(what);
    at_ = stop;
    return value;
  }

  [[noreturn]] void refuse(const char* what) const {
    constexpr size_t kShown = 40;
    const std::string_view rest(at_, static_cast<size_t>(end_ - at_));
    fail("no {} at '{}'{}; a line has a user, an item and a rating, all numbers", what,
         printable(rest.substr(0, kShown)), rest.size() > kShown ? "…" : "");
  }

  const char* at_;
  const char* const end_;
};

}  // namespace

void parse_ratings(std::string_view text, int64_t first_line, std::vector<Rating>& ratings) {
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  ratings.reserve(ratings.size() + lines);
  for_each_line(text, first_line, [&](int64_t number, const char* begin, const char* end) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (number == 1 && std::string_view(begin, end).starts_with(kByteOrderMark)) {
      begin += kByteOrderMark.size();
    }
    Line line(begin, end);
    const bool header = number == 1 && !line.has_digit();
    if (!line.is_empty() && !header) ratings.push_back(line.parse());
  });
}

}  // namespace crossbow::data
