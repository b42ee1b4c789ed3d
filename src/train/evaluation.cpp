#include "train/evaluation.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "comm/world.h"
#include "train/auc.h"
#include "train/batch_buffers.h"

namespace crossbow {
namespace {

/// With fewer classes five of them are too many to tell nets apart.
constexpr int64_t kTop5Classes = 100;

/// Rows of the last batch: as many as the others if the split divides.
int64_t last_rows(int64_t samples, int64_t rows) {
  return samples % rows == 0 ? rows : samples % rows;
}

}  // namespace

int64_t evaluation_rows(int64_t training_rows, int64_t samples) {
  return std::min(samples, std::max<int64_t>(training_rows, 64));
}

data::PipelineOptions Evaluator::pipeline_options(int64_t rows, int workers) {
  data::PipelineOptions options;
  options.batch = rows;
  options.least_depth = 2 * workers;
  return options;
}

void Evaluator::compile(CompiledModel& model, int64_t samples, int64_t rows) {
  model.evaluation(rows);
  model.evaluation(last_rows(samples, rows));
}

Evaluator::Evaluator(CompiledModel& model, std::span<const Replica* const> replicas,
                     Workers& workers, std::span<const Workspace> workspaces,
                     const data::Dataset& dataset, int64_t rows)
    : split_(dataset.test),
      numbers_(dataset.info.label == LabelKind::number),
      classes_(dataset.info.classes),
      top5_(classes_ >= kTop5Classes && dataset.info.label == LabelKind::one_class),
      samples_(dataset.test->size()),
      rows_(rows),
      workers_(workers),
      pipeline_(
          dataset, dataset.test,
          with_memory_for(*replicas.front()->device, pipeline_options(rows, workers.count()))) {
  for (size_t w = 0; w < workspaces.size(); ++w) {
    const Replica& replica = *replicas[w];
    const Workspace& workspace = workspaces[w];
    bound_.push_back({Execution(model.evaluation(rows), replica, workspace),
                      Execution(model.evaluation(last_rows(samples_, rows)), replica, workspace)});
  }
  pipeline_.serve(0, {world_rank(), 1, world_size()});
  sums_.resize(static_cast<size_t>(pipeline_.batches()));
  const bool two_classes = dataset.info.classes == 2 && dataset.info.label == LabelKind::one_class;
  if (two_classes) scores_.resize(static_cast<size_t>(samples_));
}

std::optional<Evaluation> Evaluator::run(const std::function<bool()>& stop,
                                         const std::function<void(int64_t)>& done,
                                         const LogitsFunction& logits) {
  std::atomic<int64_t> next{0}, seen{0};
  std::atomic<bool> stopped{false};
  const int rank = world_rank(), ranks = world_size();
  std::ranges::fill(sums_, Sums{});
  std::ranges::fill(scores_, 0.0f);
  pipeline_.start(0);
  workers_.run([&](int worker) {
    if (static_cast<size_t>(worker) >= bound_.size()) return;
    try {
      while (!stopped) {
        const int64_t b = next++ * ranks + rank;
        if (b >= pipeline_.batches()) return;
        if (stop()) {
          stopped = true;
          return;
        }
        sums_[static_cast<size_t>(b)] = evaluate(bound_[static_cast<size_t>(worker)], b, logits);
        const int64_t rows = std::min(rows_, samples_ - b * rows_);
        done(std::min(samples_, (seen += rows) * ranks));
      }
    } catch (...) {
      stopped = true;
      throw;
    }
  });
  if (stopped) return {};
  if (world()) merge_ranks();
  Sums total;
  for (const Sums& s : sums_) {
    total.loss += s.loss;
    total.right += s.right;
    total.top5 += s.top5;
  }
  const auto n = static_cast<double>(samples_);
  if (numbers_) return Evaluation{.loss = total.loss / n, .rmse = std::sqrt(total.loss / n)};
  return Evaluation{.loss = total.loss / n,
                    .accuracy = total.right / n,
                    .top5 = top5_ ? std::optional(total.top5 / n) : std::nullopt,
                    .auc = auc()};
}

void Evaluator::merge_ranks() {
  std::vector<double> all;
  for (const Sums& s : sums_) all.insert(all.end(), {s.loss, s.right, s.top5});
  merge(std::span(all));
  for (size_t b = 0; b < sums_.size(); ++b) sums_[b] = {all[3 * b], all[3 * b + 1], all[3 * b + 2]};
  merge(std::span(scores_));
}

double Evaluator::count_top5(int64_t first, std::span<const double> logits) const {
  const auto classes = static_cast<size_t>(classes_);
  double count = 0;
  for (; !logits.empty(); logits = logits.subspan(classes), ++first) {
    const auto label = static_cast<size_t>(split_->label(first));
    const double own = logits[label];
    int larger = 0;  // as the op `accuracy` counts, which each training step would compute, too
    for (size_t c = 0; c < classes; ++c) {
      larger += !(logits[c] < own) && (logits[c] != own || c < label);
    }
    if (larger < 5) ++count;
  }
  return count;
}

void Evaluator::keep_scores(int64_t first, std::span<const double> logits) {
  const bool one_logit = static_cast<int64_t>(logits.size()) == std::min(rows_, samples_ - first);
  const size_t width = one_logit ? 1 : 2;
  for (size_t row = 0; row < logits.size() / width; ++row) {
    const double score = one_logit ? logits[row] : logits[2 * row + 1] - logits[2 * row];
    scores_[static_cast<size_t>(first) + row] = static_cast<float>(score);
  }
}

std::optional<double> Evaluator::auc() const {
  if (scores_.empty() || !std::all_of(scores_.begin(), scores_.end(),
                                      [](float score) { return std::isfinite(score); })) {
    return {};
  }
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < samples_; ++i) labels.push_back(split_->label(i));
  return area_under_curve(scores_, labels);
}

Evaluator::Sums Evaluator::evaluate(const BoundPrograms& bound, int64_t b,
                                    const LogitsFunction& logits) {
  const data::Batch& batch = pipeline_.acquire(b);
  const auto rows = static_cast<double>(batch.rows);
  Step step;
  step.inputs = batch.fields;
  const Execution& execution = batch.rows == rows_ ? bound.whole : bound.last;
  execution.run(step);
  Sums sums{execution.scalar("loss") * rows};
  if (!numbers_) sums.right = std::round(execution.scalar("accuracy") * rows);
  pipeline_.release(batch);
  if (logits || top5_ || !scores_.empty()) {
    const std::vector<double> values = execution.values("logits");
    if (top5_) sums.top5 = count_top5(b * rows_, values);
    if (!scores_.empty()) keep_scores(b * rows_, values);
    if (logits) logits(b * rows_, values);
  }
  return sums;
}

}  // namespace crossbow
