// What can be told of a run from its folder, without loading its model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/options.h"
#include "train/record.h"

namespace crossbow {

struct RunSummary {
  std::filesystem::path folder;
  std::string problem;  // why there is nothing more to tell; else a remark, or empty
  std::optional<TrainOptions> options;  // unset where not even they can be read
  int64_t epochs = 0;                   // done
  /// As Evaluation's: of ratings RMSE, else accuracy.
  std::optional<double> final_test_accuracy, best_test_accuracy;
  std::optional<double> final_test_rmse, best_test_rmse;
  std::optional<int64_t> best_epoch;
  double train_seconds = 0, images_per_second = 0;
  Arrangement arrangement;  // at the end
};

/// Whether the folder was made by a run.
bool is_run(const std::filesystem::path& folder);

/// Of a run's folder; what is missing or damaged becomes the summary's `problem`.
RunSummary summarise(const std::filesystem::path& folder);

/// Names of options, in the order of their table, that are not the same in all runs; the folder's
/// is none of them.
std::vector<std::string> differing_options(const std::vector<RunSummary>& runs);

}  // namespace crossbow
