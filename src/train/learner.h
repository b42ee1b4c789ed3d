// Who trains: one replica of the model, and the step that improves it.
#pragma once

#include <optional>

#include "data/pipeline.h"
#include "train/compiled_model.h"
#include "train/optimizer.h"

namespace crossbow {

/// Owns its replica; borrows the arena, which others may use between its steps. Used by one thread
/// at a time, whose OpenMP width must be CompileOptions::threads.
class Learner {
 public:
  /// For whole batches of `rows`, and last ones of `last_rows` (0 if all are whole), for both of
  /// which `model` must have been asked before the arena was made.
  Learner(CompiledModel& model, int64_t rows, int64_t last_rows, const Buffer& arena,
          const Sgd& sgd);

  /// Forward, backward and update; `step.inputs` holds `rows` or `last_rows` images and labels.
  /// Returns the batch's mean loss before the update. Allocates nothing.
  float step(Step step, int64_t rows, double lr);
  /// As step, of whole rows, adding each op's seconds to `seconds`, which has one element more than
  /// the program has ops: that of an update after them all.
  void timed_step(Step step, double lr, std::span<double> seconds);

  Replica& replica() { return replica_; }
  const Replica& replica() const { return replica_; }
  const ParameterLayout& layout() const { return *layout_; }

 private:
  struct Bound {
    Bound(std::shared_ptr<const Program> program, const Replica& replica, const Buffer& arena)
        : execution(std::move(program), replica, arena), loss(execution.scalar_address("loss")) {}
    Execution execution;
    const float* loss;
  };

  void update(double lr) const { sgd_update(sgd_, lr, *layout_, *math_, replica_); }

  std::shared_ptr<const ParameterLayout> layout_;
  const VectorMath* math_;
  Sgd sgd_;
  bool programs_update_;  // else the update follows them: clipping needs the whole gradient first
  Replica replica_;
  int64_t rows_;
  Bound whole_;
  std::optional<Bound> last_;
};

/// From resolved options.
Sgd sgd_of(const TrainOptions& options);

}  // namespace crossbow
