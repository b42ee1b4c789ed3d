// crossbow runs
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "cli/command.h"
#include "cli/results.h"
#include "core/error.h"
#include "train/config.h"
#include "train/record_json.h"
#include "train/run_summary.h"

namespace crossbow::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunsExamples = R"(Examples:
  crossbow runs                          those in ./runs, the best first
  crossbow runs runs/mnist runs/mnist-2  two of them
  crossbow runs experiments --json       those in a folder
)";

struct RunsFlags {
  std::vector<std::string> folders;
  bool json = false;
};

/// A run's folder itself, or else the runs in it.
void add_runs_of(const fs::path& folder, std::vector<RunSummary>& runs) {
  if (is_run(folder)) return runs.push_back(summarise(folder));
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_run(it->path())) found.push_back(it->path());
  }
  if (error) {
    fail("cannot read the folder {} ({}): give the folder of a run, or one that holds some",
         folder.string(), error.message());
  }
  if (found.empty()) {
    fail("{} neither is nor holds the folder of a run: crossbow train makes one", folder.string());
  }
  std::sort(found.begin(), found.end());
  for (const fs::path& path : found) runs.push_back(summarise(path));
}

std::vector<RunSummary> list_runs(const std::vector<std::string>& folders) {
  std::vector<RunSummary> runs;
  for (const std::string& folder : folders) add_runs_of(folder, runs);
  std::stable_sort(runs.begin(), runs.end(), [](const RunSummary& a, const RunSummary& b) {
    const auto rank = [](const RunSummary& run) {  // those without a test are the last
      constexpr double kNone = std::numeric_limits<double>::infinity();
      return std::pair(-run.best_test_accuracy.value_or(-1), run.best_test_rmse.value_or(kNone));
    };
    return rank(a) < rank(b);
  });
  return runs;
}

std::string setting(const RunSummary& run, const std::string& name) {
  return option_text(*run.options, *find_option(name));
}

Json to_json(const RunSummary& run, const std::vector<std::string>& differing) {
  Json j;
  j["run"] = run.folder.string();
  j["problem"] = run.problem.empty() ? Json(nullptr) : Json(run.problem);
  if (run.options) {
    j["model"] = run.options->model;
    j["data"] = run.options->data ? Json(*run.options->data) : Json(nullptr);
    Json settings = Json::object();
    for (const std::string& name : differing) settings[name] = setting(run, name);
    j["settings"] = std::move(settings);
    j["epochs_planned"] = run.options->epochs ? Json(*run.options->epochs) : Json(nullptr);
  }
  j["epochs"] = run.epochs;
  j["final_test_accuracy"] = crossbow::to_json(run.final_test_accuracy);
  j["best_test_accuracy"] = crossbow::to_json(run.best_test_accuracy);
  if (run.best_test_rmse) j["final_test_rmse"] = crossbow::to_json(run.final_test_rmse);
  if (run.best_test_rmse) j["best_test_rmse"] = *run.best_test_rmse;
  j["best_epoch"] = run.best_epoch ? Json(*run.best_epoch) : Json(nullptr);
  j["train_seconds"] = run.train_seconds;
  j["images_per_second"] = run.images_per_second;
  j["learners"] = run.arrangement.learners;
  j["threads_per_learner"] = run.arrangement.threads;
  return j;
}

std::string test_text(const std::optional<double>& accuracy, const std::optional<double>& rmse) {
  return accuracy ? percent(*accuracy) : rmse ? fmt::format("{:.4f}", *rmse) : "-";
}

/// Where the folder's settings differ, then what is odd about it.
std::string remarks(const RunSummary& run, const std::vector<std::string>& differing) {
  std::vector<std::string> parts;
  for (const std::string& name : differing) {
    if (run.options) parts.push_back(name + ' ' + setting(run, name));
  }
  if (!run.problem.empty()) parts.push_back('(' + run.problem + ')');
  return printable(fmt::format("{}", fmt::join(parts, "  ")));
}

/// What a run's settings have in particular stands below its row.
void print_table(const std::vector<RunSummary>& runs) {
  constexpr size_t kWidest = 32;  // of names, beside the numbers
  const auto differing = differing_options(runs);
  size_t name = std::string_view("run").size();
  for (const RunSummary& run : runs) {
    name = std::max(name, columns_of(printable(run.folder.string())));
  }
  name = std::min(name, kWidest);
  put_row(stdout, "run", name,
          fmt::format(" {:>9} {:>9} {:>7} {:>9} {:>9}", "best", "final", "epochs", "train s",
                      "images/s"));
  if (!differing.empty()) put("  settings that differ\n");
  for (const RunSummary& run : runs) {
    const bool planned = run.options && run.options->epochs;
    put_row(stdout, printable(run.folder.string()), name,
            fmt::format(" {:>9} {:>9} {:>7} {:>9.1f} {:>9}",
                        test_text(run.best_test_accuracy, run.best_test_rmse),
                        test_text(run.final_test_accuracy, run.final_test_rmse),
                        planned ? fmt::format("{}/{}", run.epochs, *run.options->epochs)
                                : std::to_string(run.epochs),
                        run.train_seconds, grouped(std::llround(run.images_per_second))));
    const std::string below = remarks(run, differing);
    if (!below.empty()) put_wrapped(stdout, "  ", below);
  }
}

int run(const RunsFlags& flags) {
  const auto runs =
      list_runs(flags.folders.empty() ? std::vector<std::string>{"runs"} : flags.folders);
  if (!flags.json) {
    print_table(runs);
    return 0;
  }
  const auto differing = differing_options(runs);
  Json list = Json::array();
  for (const RunSummary& run : runs) list.push_back(to_json(run, differing));
  print_json({{"runs", std::move(list)}});
  return 0;
}

}  // namespace

Run add_runs(CLI::App& root) {
  CLI::App& app =
      *root.add_subcommand("runs", "compare runs: settings that differ, accuracy or RMSE, time");
  const auto flags = std::make_shared<RunsFlags>();
  app.add_option("folder", flags->folders, "runs, or folders of runs [runs]")->type_name("DIR");
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.footer(kRunsExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
