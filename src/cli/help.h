// How `--help` looks.
#pragma once

#include <CLI/CLI.hpp>

namespace crossbow::cli {

/// CLI11's own, wrapped to the width of standard output.
class Help final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace crossbow::cli
