// What commands print. A stream that fails does not end a command half-way: whether standard
// output took everything is asked at its end, and standard error may be lost.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace crossbow::cli {

constexpr std::string_view kNote = "note: ";

/// Of a terminal, else of those that people mostly have.
size_t columns(std::FILE* to);

/// Never throws; a failure stays on the stream.
void write(std::FILE* to, std::string_view text);

template <typename... Args>
void put(std::FILE* to, fmt::format_string<Args...> format, Args&&... args) {
  write(to, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void put(fmt::format_string<Args...> format, Args&&... args) {
  put(stdout, format, std::forward<Args>(args)...);
}

/// `label` and `text`, and a line break; lines after the first are indented by the label's width.
void put_wrapped(std::FILE* to, std::string_view label, std::string_view text);

/// A row of a table: `first`, padded to `width` columns, and the rest; where it is wider, it has a
/// line of its own.
void put_row(std::FILE* to, std::string_view first, size_t width, std::string_view rest);

/// A message of the library, which names options in backticks, as the command line has them: `lr`
/// becomes --lr.
std::string with_flags(std::string_view message);

/// One sentence on standard error, on one line whatever is quoted in it.
void complain(std::string_view command, std::string_view sentence);

/// On standard error too: a sentence on what is no failure, wrapped.
void note(std::string_view sentence);

/// Throws Error if standard output has not taken what was written to it.
void check_standard_output();

/// To be called first: nothing that a command opens takes the place of a standard stream that it
/// was started without, and a closed pipe or a limit on file sizes is an error, not a signal.
void prepare_streams();

}  // namespace crossbow::cli
