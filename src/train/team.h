// All that computes in a run: what another number of learners, or of threads, needs anew.
#pragma once

#include <memory>
#include <vector>

#include "learner/engine.h"
#include "learner/memory.h"
#include "plan/tuner.h"
#include "train/evaluation.h"
#include "train/run_config.h"
#include "train/statistics.h"

namespace crossbow {

/// Compiled for a number of learners, with their memory and their threads. One thread.
struct Team {
  using OwnModels = std::vector<std::shared_ptr<CompiledModel>>;

  /// `forward` is of whole batches; `batches`, on which the learners will train, has some of its
  /// buffers already; `known`, of an earlier team of the run, are taken if they would be the same.
  /// Throws UsageError if all that needs more memory of the host or of a device than is left.
  Team(const Graph& forward, const RunConfig& run, const TeamConfig& team,
       const data::Dataset& dataset, data::TrainingBatches& batches, Tuner& tuner,
       const OwnModels& known = {});

  /// What is evaluated and saved after so many samples of the run, until the next call.
  const Replica& model_at(int64_t samples);

  /// How many learners the memory of the host and of the devices would hold in this team's place,
  /// at most `most`, with the copy of the state that takes them there, as far as can be told from
  /// this team's programs.
  int affordable(const RunConfig& run, const data::Dataset& dataset, int most);

  const TeamConfig config;
  /// Of unlike workers one each. The first one is evaluated.
  const OwnModels models;
  const LearnerMemory memory;
  const std::unique_ptr<Engine> engine;
  Evaluator evaluator;
  std::unique_ptr<Statistics> statistics;  // null where they are the learners'
};

}  // namespace crossbow
