// The options by name: one table that the command line, configuration files, checkpoints and
// `--help` share.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "train/options.h"

namespace crossbow {

struct OptionEntry {
  using Member = std::variant<
      std::string TrainOptions::*, int64_t TrainOptions::*, uint64_t TrainOptions::*,
      double TrainOptions::*, bool TrainOptions::*, std::optional<std::string> TrainOptions::*,
      std::optional<int64_t> TrainOptions::*, std::optional<double> TrainOptions::*,
      std::optional<bool> TrainOptions::*, std::optional<std::vector<double>> TrainOptions::*>;

  std::string_view name;   // of the flag without its dashes, and of the key in a file
  std::string_view value;  // what stands for the value in a help text; empty: a switch
  std::string_view help;
  Member member;
  bool may_change = false;  // in a resumed run
  char between = 0;         // values of a flag that is given several times; 0: the last one counts

  bool is_switch() const { return value.empty(); }
};

std::span<const OptionEntry> option_table();
/// Null if there is none.
const OptionEntry* find_option(std::string_view name);
/// Throws UsageError naming the nearest of those that there are.
[[noreturn]] void fail_unknown_option(std::string_view name,
                                      std::span<const std::string_view> known);

/// Throws UsageError naming the option if `text` is not a value of its kind. "auto" unsets an
/// optional one.
void set_option(TrainOptions& options, const OptionEntry& entry, std::string_view text);
/// As set_option reads it; "auto" if unset.
std::string option_text(const TrainOptions& options, const OptionEntry& entry);

/// False for an optional one that is unset.
bool option_is_set(const TrainOptions& options, const OptionEntry& entry);

/// Sets what a TOML text says; `source` names it in errors. Throws UsageError for text that is not
/// TOML, an unknown key (naming the nearest) or a value of the wrong kind. Never reads a file.
void apply_config(TrainOptions& options, std::string_view toml, std::string_view source);
/// The same, from a file of at most 1 MiB.
void apply_config_file(TrainOptions& options, const std::string& path);
/// All that is set, as TOML that apply_config reads back to the same options.
std::string to_config(const TrainOptions& options);

/// Names, and texts as option_text has them, of what is set in `settled` alone.
std::vector<std::pair<std::string_view, std::string>> settled_texts(const TrainOptions& open,
                                                                    const TrainOptions& settled);

/// Throws UsageError if the options would make another run of that of `before`, which is to be
/// resumed or repeated.
void check_same_run(const TrainOptions& before, const TrainOptions& now, std::string_view to);

}  // namespace crossbow
