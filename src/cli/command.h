// What the commands share: how they register and read options.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cli/output.h"
#include "core/text.h"
#include "train/options.h"

namespace crossbow::cli {

/// Does what the parsed command line asks; the process's exit code.
using Run = std::function<int()>;

Run add_train(CLI::App& root);
Run add_simulate(CLI::App& root);
Run add_eval(CLI::App& root);
Run add_predict(CLI::App& root);
Run add_runs(CLI::App& root);
Run add_bench(CLI::App& root);
Run add_models(CLI::App& root);
Run add_data(CLI::App& root);
/// Of `crossbow data`.
Run add_fetch(CLI::App& data);
Run add_check(CLI::App& data);
Run add_convert(CLI::App& root);
Run add_export(CLI::App& root);
Run add_devices(CLI::App& root);
Run add_graph(CLI::App& root);
Run add_completion(CLI::App& root);

/// As a shell tells of a command that a signal has ended.
constexpr int exit_code_of(int signal) {
  return 128 + signal;
}

/// The flags that stand for options of a run.
class OptionFlags {
 public:
  /// Adds those named, or all.
  void add(CLI::App& app, std::initializer_list<std::string_view> names = {});
  /// Adds another flag for an option.
  void add_alias(CLI::App& app, const std::string& flag, const std::string& option,
                 const std::string& help);
  /// Adds `--config`.
  void add_config(CLI::App& app);

  /// `base`, changed by the configuration file, then by the flags.
  TrainOptions apply(TrainOptions base = {}) const;

 private:
  std::map<std::string, std::string> given_;  // by option; empty if it was not given
  std::string config_;
};

/// What --sync can be, for a help text.
std::string sync_names();

/// "crossbow X.Y.Z" on the first line, then what it is built with and uses on this machine.
std::string version_text();

}  // namespace crossbow::cli
