// What the commands share: how they register, read options and print.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "train/options.h"

namespace crossbow::cli {

/// Does what the parsed command line asks; the process's exit code.
using Run = std::function<int()>;

Run add_train(CLI::App& root);
Run add_eval(CLI::App& root);
Run add_bench(CLI::App& root);
Run add_models(CLI::App& root);
Run add_data(CLI::App& root);
Run add_graph(CLI::App& root);

/// The flags that stand for options of a run.
class OptionFlags {
 public:
  /// Adds those named, or all.
  void add(CLI::App& app, std::initializer_list<std::string_view> names = {});
  /// Adds `--config`.
  void add_config(CLI::App& app);

  /// `base`, changed by the configuration file, then by the flags.
  TrainOptions apply(TrainOptions base = {}) const;

 private:
  std::map<std::string, std::string> given_;
  std::string config_;
};

/// JSON whose keys keep the order in which they were set.
using Json = nlohmann::ordered_json;
/// The one object that `--json` puts on standard output.
void print_json(const Json& object);

/// 1234567 as "1,234,567".
std::string grouped(int64_t n);
/// A fraction as "98.61 %".
std::string percent(double fraction);
/// "3 epochs", "1 epoch".
std::string count(int64_t n, std::string_view noun);
/// Bytes as MiB.
inline double mebibytes(double bytes) {
  return bytes / (1 << 20);
}

}  // namespace crossbow::cli
