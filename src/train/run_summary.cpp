#include "train/run_summary.h"

#include <algorithm>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/workers_config.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void summarise(const Checkpoint& c, RunSummary& run) {
  run.options = c.options;
  run.epochs = c.position.epoch;
  run.arrangement = c.position.arrangement;
  for (const EpochRecord& e : c.history) {
    run.train_seconds += e.seconds;
    if (!e.test_loss) continue;
    run.final_test_accuracy = e.test_accuracy;
    run.final_test_rmse = e.test_rmse;
  }
  run.train_seconds += c.position.seconds;
  if (const EpochRecord* best = best_of(c.history)) {
    run.best_test_accuracy = best->test_accuracy;
    run.best_test_rmse = best->test_rmse;
    run.best_epoch = best->epoch;
  }
  const auto samples = static_cast<double>(c.samples);
  const int64_t batch = c.position.batch_rows > 0 ? c.position.batch_rows : batch_of(c.options);
  const auto rows = static_cast<double>(c.position.batch * batch);
  const double seen = static_cast<double>(c.position.epoch) * samples + std::min(rows, samples);
  if (run.train_seconds > 0) run.images_per_second = seen / run.train_seconds;
}

}  // namespace

bool is_run(const fs::path& folder) {
  return is_there(folder / "checkpoint") || is_there(folder / "checkpoint.previous") ||
         (is_there(folder / "config.toml") && is_there(folder / "metrics.jsonl"));
}

RunSummary summarise(const fs::path& folder) {
  RunSummary run;
  run.folder = folder;
  try {
    const auto warn = [&](std::string_view text) { run.problem = text; };
    summarise(load_checkpoint_header(folder, warn), run);
    return run;
  } catch (const Error& e) {
    run.problem = e.what();
  }
  try {
    TrainOptions options;
    apply_config_file(options, (folder / "config.toml").string());
    run.options = options;
  } catch (const Error&) {
    // The first problem is the one to tell.
  }
  return run;
}

std::vector<std::string> differing_options(const std::vector<RunSummary>& runs) {
  std::vector<std::string> names;
  for (const OptionEntry& entry : option_table()) {
    if (entry.name == "out") continue;
    std::optional<std::string> first;
    for (const RunSummary& run : runs) {
      if (!run.options) continue;
      const std::string text = option_text(*run.options, entry);
      if (first && *first != text) {
        names.emplace_back(entry.name);
        break;
      }
      first = text;
    }
  }
  return names;
}

}  // namespace crossbow
