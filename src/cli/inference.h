// What `eval` and `predict` share.
#pragma once

#include "cli/command.h"
#include "train/trained_model.h"

namespace crossbow::cli {

/// The run and how to compute, as a user gives them.
class InferenceFlags {
 public:
  /// `data`: whether another data set can be given.
  void add(CLI::App& app, bool data);
  /// By the run's options where no flag says otherwise. Notes go to standard error.
  TrainedModel model() const;

 private:
  OptionFlags options_;
  std::string run_;
};

}  // namespace crossbow::cli
