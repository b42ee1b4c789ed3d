#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace crossbow {

std::string grouped(int64_t n) {
  std::string digits = std::to_string(std::abs(n));
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<size_t>(i), 1, ',');
  }
  return (n < 0 ? "-" : "") + digits;
}

std::string count(int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(n), noun, n == 1 ? "" : "s");
}

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

size_t columns_of(std::string_view text) {
  const auto begins_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  };
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  const std::string next_line = '\n' + std::string(indent, ' ');
  std::string result;
  size_t used = 0;     // columns of the last line
  bool begun = false;  // whether it has a word
  while (!text.empty()) {
    // A word with the spaces before it.
    const size_t word = std::min(text.find_first_not_of(' '), text.size());
    const std::string_view piece = text.substr(0, text.find(' ', word));
    text.remove_prefix(piece.size());
    if (begun && word < piece.size() && used + columns_of(piece) > width) {
      result.append(next_line).append(piece.substr(word));
      used = indent + columns_of(piece.substr(word));
    } else {
      result.append(piece);
      used += columns_of(piece);
    }
    begun = true;
  }
  return result;
}

}  // namespace crossbow
