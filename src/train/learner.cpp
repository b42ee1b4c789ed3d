#include "train/learner.h"

#include <chrono>

namespace crossbow {

Sgd sgd_of(const TrainOptions& options) {
  return {*options.momentum, *options.weight_decay, options.nesterov,
          options.clip_norm.value_or(0)};
}

Learner::Learner(CompiledModel& model, int64_t rows, int64_t last_rows, const Buffer& arena,
                 const Sgd& sgd)
    : layout_(model.training(rows)->parameters()),
      math_(&vector_math(model.options().device, layout_->dtype)),
      sgd_(sgd),
      programs_update_(model.options().update),
      replica_(*layout_, /*with_gradients=*/!programs_update_),
      rows_(rows),
      whole_(model.training(rows), replica_, arena) {
  if (last_rows > 0) last_.emplace(model.training(last_rows), replica_, arena);
}

float Learner::step(Step step, int64_t rows, double lr) {
  const Bound& bound = rows == rows_ ? whole_ : *last_;
  step.sgd = sgd_step(sgd_, lr);
  bound.execution.run(step);
  if (!programs_update_) update(lr);
  return *bound.loss;
}

void Learner::timed_step(Step step, double lr, std::span<double> seconds) {
  step.sgd = sgd_step(sgd_, lr);
  whole_.execution.run_timed(step, seconds.first(seconds.size() - 1));
  if (programs_update_) return;
  const auto start = std::chrono::steady_clock::now();
  update(lr);
  seconds.back() += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace crossbow
