#include "train/step_recorder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace crossbow {

StepRecorder::StepRecorder(Position& position, const RunConfig& config, int64_t samples,
                           const Schedule& schedule, RunFolder* folder, Observer& observer)
    : position_(position),
      batch_(config.batch),
      samples_(samples),
      log_every_(config.log_every),
      schedule_(schedule),
      folder_(folder),
      observer_(observer) {}

int64_t StepRecorder::samples_at(int64_t batch) const {
  return position_.epoch * samples_ + std::min(batch * batch_, samples_);
}

std::optional<float> StepRecorder::take(std::span<const float> losses) {
  Position& p = position_;
  if (p.open_batches == 0) ++p.step;
  for (const float loss : losses) {
    if (!std::isfinite(loss)) return loss;
    const int64_t n = std::min(batch_, samples_ - p.batch * batch_);
    p.open_loss_sum += static_cast<double>(loss) * static_cast<double>(n);
    ++p.open_batches;
    ++p.batch;
  }
  return {};
}

void StepRecorder::end_iteration() {
  Position& p = position_;
  const int64_t first = p.batch - std::exchange(p.open_batches, 0);
  const double sum = std::exchange(p.open_loss_sum, 0);
  const int64_t rows = samples_seen() - samples_at(first);
  p.loss_sum += sum;
  p.logged_loss_sum += sum;
  p.logged_rows += rows;
  if (p.step % log_every_ == 0) log(rate_at(first));
  show(static_cast<float>(sum / static_cast<double>(rows)));
}

void StepRecorder::log(double rate) {
  Position& p = position_;
  const double mean = p.logged_loss_sum / static_cast<double>(p.logged_rows);
  if (folder_ && folder_->has_records())
    folder_->metrics().step(p.step, samples_seen(), mean, rate);
  p.logged_loss_sum = 0;
  p.logged_rows = 0;
}

void StepRecorder::show(float loss) {
  std::atomic<float>& shown = observer_.progress.loss;
  const float before = shown.load(std::memory_order_relaxed);
  shown.store(std::isnan(before) ? loss : before + (loss - before) * 0.02f,
              std::memory_order_relaxed);
}

}  // namespace crossbow
