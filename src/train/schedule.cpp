#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"

namespace crossbow {
namespace {

Schedule::Kind kind_of(const std::string& name) {
  if (name == "fixed") return Schedule::Kind::fixed;
  if (name == "step") return Schedule::Kind::step;
  if (name == "multistep") return Schedule::Kind::multistep;
  if (name == "cosine") return Schedule::Kind::cosine;
  fail_usage("there is no learning-rate schedule '{}'", name);
}

int64_t in_samples(double epochs, int64_t samples_per_epoch) {
  return std::llround(std::min(epochs * static_cast<double>(samples_per_epoch), 0x1p62));
}

}  // namespace

bool drops_the_rate(std::string_view schedule) {
  return schedule == "step" || schedule == "multistep";
}

EpochSchedule EpochSchedule::of(const TrainOptions& o) {
  return {kind_of(*o.lr_schedule), *o.lr, o.lr_gamma.value_or(1),
          o.lr_milestones.value_or(std::vector<double>{}), *o.warmup};
}

Schedule Schedule::of(const EpochSchedule& rate, int64_t epochs, int64_t samples_per_epoch) {
  Schedule s;
  s.kind = rate.kind;
  s.lr = rate.lr;
  s.gamma = rate.gamma;
  for (const double epoch : rate.milestones) {
    s.milestones.push_back(std::max<int64_t>(1, in_samples(epoch, samples_per_epoch)));
  }
  s.warmup = in_samples(rate.warmup, samples_per_epoch);
  s.total = in_samples(static_cast<double>(epochs), samples_per_epoch);
  return s;
}

double Schedule::rate(int64_t samples) const {
  if (samples < warmup) return lr * static_cast<double>(samples) / static_cast<double>(warmup);
  switch (kind) {
    case Kind::fixed:
      break;
    case Kind::step:
    case Kind::multistep:
      return lr * std::pow(gamma, static_cast<double>(drops(samples)));
    case Kind::cosine: {
      const double length = static_cast<double>(std::max<int64_t>(1, total - warmup));
      const double t = std::min(1.0, static_cast<double>(samples - warmup) / length);
      return lr * (1 + std::cos(std::numbers::pi * t)) / 2;
    }
  }
  return lr;
}

int64_t Schedule::drops(int64_t samples) const {
  if (kind == Kind::step) return samples / milestones[0];
  if (kind != Kind::multistep) return 0;
  return std::upper_bound(milestones.begin(), milestones.end(), samples) - milestones.begin();
}

int64_t Schedule::next_drop(int64_t samples) const {
  if (kind == Kind::step) return (samples / milestones[0] + 1) * milestones[0];
  const auto next = std::upper_bound(milestones.begin(), milestones.end(), samples);
  const bool none = kind != Kind::multistep || next == milestones.end();
  return none ? std::numeric_limits<int64_t>::max() : *next;
}

}  // namespace crossbow
