#include "train/step_recorder.h"

#include <algorithm>
#include <cmath>

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
  const double rate = rate_at(p.batch);
  ++p.step;
  double sum = 0;
  int64_t rows = 0;
  for (const float loss : losses) {
    if (!std::isfinite(loss)) return loss;
    const int64_t n = std::min(batch_, samples_ - p.batch * batch_);
    sum += static_cast<double>(loss) * static_cast<double>(n);
    rows += n;
    ++p.batch;
  }
  p.loss_sum += sum;
  p.logged_loss_sum += sum;
  p.logged_rows += rows;
  if (p.step % log_every_ == 0) log(rate);
  show(static_cast<float>(sum / static_cast<double>(rows)));
  return {};
}

void StepRecorder::log(double rate) {
  Position& p = position_;
  const double mean = p.logged_loss_sum / static_cast<double>(p.logged_rows);
  if (folder_) folder_->metrics().step(p.step, samples_seen(), mean, rate);
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
