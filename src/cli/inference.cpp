#include "cli/inference.h"

#include <fmt/format.h>

namespace crossbow::cli {

void InferenceFlags::add(CLI::App& app, bool data) {
  app.add_option("run", run_, "a run's folder, or a checkpoint file")
      ->required()
      ->type_name("PATH");
  if (data) options_.add(app, {"data"});
  options_.add(app, {"device", "batch", "threads-per-learner", "precision"});
}

TrainedModel InferenceFlags::model() const {
  return TrainedModel(
      run_, [&](const TrainOptions& options) { return options_.apply(options); }, note);
}

}  // namespace crossbow::cli
