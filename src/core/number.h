// Numbers from text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace crossbow {

/// The number that all of the text is, in decimal and without spaces; nothing for other text, and
/// for a number that the type cannot hold.
template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace crossbow
