#include "cli/help.h"

#include <algorithm>
#include <sstream>

#include "cli/output.h"
#include "core/text.h"

namespace crossbow::cli {
namespace {

/// Of the second column, for lines that CLI11 indents.
std::string in_column(const std::string& text, size_t first_column) {
  constexpr size_t kNarrowest = 20;
  const size_t width = columns(stdout);
  return wrapped(text, std::max(kNarrowest, width - std::min(width, first_column)));
}

}  // namespace

/// A switch's taking back goes without saying.
std::string Help::make_option_name(const CLI::Option* option, bool is_positional) const {
  const std::string names = Formatter::make_option_name(option, is_positional);
  return names.substr(0, names.find(",--no-"));
}

std::string Help::make_option_desc(const CLI::Option* option) const {
  return in_column(Formatter::make_option_desc(option), get_column_width());
}

std::string Help::make_subcommand(const CLI::App* command) const {
  std::ostringstream out;
  CLI::detail::format_help(out, command->get_display_name(true),
                           in_column(command->get_description(), get_column_width()),
                           get_column_width());
  return out.str();
}

/// A line's continuation stands under its second column, which two spaces begin, if it has one.
std::string Help::make_footer(const CLI::App* app) const {
  std::istringstream lines(app->get_footer());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const size_t gap = line.find("  ", begin);
    const size_t column = gap == line.npos ? begin : line.find_first_not_of(' ', gap);
    text += wrapped(line, columns(stdout), column) + '\n';
  }
  return text;
}

}  // namespace crossbow::cli
