// Learning-rate schedules, counted in samples so that they mean the same at every batch size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/options.h"

namespace crossbow {

/// Whether the schedule of that name drops the rate at milestones.
bool drops_the_rate(std::string_view schedule);

/// What a run's options say of its rate, in epochs.
struct EpochSchedule {
  enum class Kind { fixed, step, multistep, cosine };

  Kind kind = Kind::fixed;
  double lr = 0;
  double gamma = 1;
  std::vector<double> milestones;  // of step: the one interval
  double warmup = 0;

  /// Of resolved options.
  static EpochSchedule of(const TrainOptions& options);
};

/// A plain value; with n samples of an epoch, an epoch's number e stands for sample round(e·n).
struct Schedule {
  using Kind = EpochSchedule::Kind;

  Kind kind = Kind::fixed;
  double lr = 0;
  double gamma = 1;
  std::vector<int64_t> milestones;  // samples; of step: the one interval
  int64_t warmup = 0;               // samples
  int64_t total = 0;                // samples of the whole run

  static Schedule of(const EpochSchedule& rate, int64_t epochs, int64_t samples_per_epoch);

  /// The rate of the step that starts when s samples have been seen:
  ///   fixed      lr
  ///   step       lr · gamma^floor(s / milestones[0])
  ///   multistep  lr · gamma^(number of milestones <= s)
  ///   cosine     lr · (1 + cos(pi · (s − warmup) / (total − warmup))) / 2
  ///              (Loshchilov & Hutter 2017)
  /// and while s < warmup, lr · s / warmup instead (Goyal et al. 2017).
  double rate(int64_t samples) const;

  /// Of step and multistep: how often the rate has dropped after that many samples, and after how
  /// many it will next; the largest number if it never will.
  int64_t drops(int64_t samples) const;
  int64_t next_drop(int64_t samples) const;
  /// Whether a drop begins another stage of training, or is a step of a slow decay.
  bool drops_by_stages() const { return gamma <= 0.5; }
};

}  // namespace crossbow
