#include "train/evaluation.h"

#include <algorithm>
#include <cmath>

namespace crossbow {
namespace {

/// Rows of the last batch: as many as the others if the split divides.
int64_t last_rows(int64_t samples, int64_t rows) {
  return samples % rows == 0 ? rows : samples % rows;
}

data::PipelineOptions in_order(int64_t rows) {
  data::PipelineOptions options;
  options.batch = rows;
  return options;
}

}  // namespace

int64_t evaluation_rows(int64_t training_rows) {
  return std::max<int64_t>(training_rows, 64);
}

void Evaluator::compile(CompiledModel& model, int64_t samples, int64_t rows) {
  model.evaluation(rows);
  model.evaluation(last_rows(samples, rows));
}

Evaluator::Evaluator(CompiledModel& model, const Replica& replica, const Buffer& arena,
                     const data::Dataset& dataset, int64_t rows)
    : samples_(dataset.test->size()),
      rows_(rows),
      whole_(model.evaluation(rows), replica, arena),
      last_(model.evaluation(last_rows(samples_, rows)), replica, arena),
      pipeline_(dataset, dataset.test, in_order(rows)) {}

std::optional<Evaluation> Evaluator::run(const std::function<bool()>& stop,
                                         const std::function<void(int64_t)>& done) {
  double loss = 0, right = 0;
  pipeline_.start(0);
  for (int64_t b = 0; b < pipeline_.batches(); ++b) {
    if (stop()) return {};
    const data::Batch& batch = pipeline_.acquire(b);
    const auto rows = static_cast<double>(batch.rows);
    Step step;
    step.inputs = {batch.images, batch.labels};
    const Execution& execution = batch.rows == rows_ ? whole_ : last_;
    execution.run(step);
    pipeline_.release(batch);
    loss += execution.scalar("loss") * rows;
    right += std::round(execution.scalar("accuracy") * rows);
    done(b * rows_ + static_cast<int64_t>(rows));
  }
  const auto n = static_cast<double>(samples_);
  return Evaluation{loss / n, right / n};
}

}  // namespace crossbow
