// Numbers and names as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace crossbow {

/// 1234567 as "1,234,567".
std::string grouped(int64_t n);
/// "3 epochs", "1 epoch".
std::string count(int64_t n, std::string_view noun);
/// With ASCII's control characters spelled out: a line break as \n, an escape as \x1b.
std::string printable(std::string_view text);
/// What a terminal shows side by side: UTF-8's characters, each taken for one column.
size_t columns_of(std::string_view text);
/// Broken at spaces into lines of at most `width` columns; those after the first begin with
/// `indent` spaces. A word that is longer stays whole.
std::string wrapped(std::string_view text, size_t width, size_t indent = 0);
/// Bytes as MiB.
inline double mebibytes(double bytes) {
  return bytes / (1 << 20);
}

}  // namespace crossbow
