// Loss and accuracy on a split that is not trained on.
#pragma once

#include <functional>
#include <optional>

#include "data/pipeline.h"
#include "train/compiled_model.h"

namespace crossbow {

struct Evaluation {
  double loss = 0, accuracy = 0;  // means over all samples; accuracy a fraction
};

/// Images in an evaluation batch: training batches may be too small to fill the machine.
int64_t evaluation_rows(int64_t training_rows);

/// Binds a replica, an arena and a split; runs as often as asked. One thread at a time, with the
/// OpenMP width of the model's programs.
class Evaluator {
 public:
  /// Compiles what a split of `samples` needs; to be called before the arena is made.
  static void compile(CompiledModel& model, int64_t samples, int64_t rows);

  Evaluator(CompiledModel& model, const Replica& replica, const Buffer& arena,
            const data::Dataset& dataset, int64_t rows);

  /// Nothing if `stop` said so in between. `done` gets the number of samples after each batch.
  std::optional<Evaluation> run(const std::function<bool()>& stop,
                                const std::function<void(int64_t)>& done);

 private:
  int64_t samples_, rows_;
  Execution whole_, last_;
  data::Pipeline pipeline_;
};

}  // namespace crossbow
