#include "train/learner.h"

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
      replica_(*layout_),
      rows_(rows),
      whole_(model.training(rows), replica_, arena) {
  if (last_rows > 0) last_.emplace(model.training(last_rows), replica_, arena);
}

float Learner::step(const Step& step, int64_t rows, double lr) {
  const Bound& bound = rows == rows_ ? whole_ : *last_;
  bound.execution.run(step);
  update(lr);
  return *bound.loss;
}

}  // namespace crossbow
