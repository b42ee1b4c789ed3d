// A model that a run has left behind, ready for inference.
#pragma once

#include <filesystem>
#include <functional>

#include "data/dataset.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/run_config.h"

namespace crossbow {

/// Computes on one whole device, of all of this machine's cores if it is a CPU, whatever the run
/// was trained by. One thread.
class TrainedModel {
 public:
  /// From a run's folder or a checkpoint file. `change` gets the options with which to compute
  /// (device, batch, precision) and the data set of the run, and returns what to take instead.
  /// `warn` is told what is odd about the checkpoint. Throws Error if there is none or it is of a
  /// net that a program declares, UsageError for options that make no sense.
  TrainedModel(const std::filesystem::path& run,
               const std::function<TrainOptions(TrainOptions)>& change,
               std::function<void(std::string_view)> warn);

  const RunConfig& config() const { return config_; }
  /// The data set that the configuration names, its images of the size that the model takes. Throws
  /// Error if it has images of another shape or other classes.
  std::shared_ptr<const data::Dataset> open_data() const;
  /// Shape, classes and normalisation of the images that the model was trained on. Opens the run's
  /// data set where the checkpoint is too old to tell, and says so.
  data::Info info() const;

  /// Over the set's test images, of the model's shape.
  Evaluation run(const data::Dataset& dataset, const LogitsFunction& logits) const;

 private:
  const std::function<void(std::string_view)> warn_;
  const Checkpoint checkpoint_;
  const RunConfig config_;
};

}  // namespace crossbow
