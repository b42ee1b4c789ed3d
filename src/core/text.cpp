#include "core/text.h"

#include <fmt/format.h>

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
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return line;
}

}  // namespace crossbow
