#include "train/notes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "comm/world.h"
#include "core/error.h"
#include "core/text.h"
#include "device/device.h"
#include "ops/batch_norm.h"
#include "train/clock_config.h"
#include "train/team_config.h"

namespace crossbow {
namespace {

constexpr double kFar = 3;  // times the loss of a net that says nothing

}  // namespace

std::optional<std::string> class_note(const std::string& name, const data::Dataset& dataset) {
  if (dataset.info.label == LabelKind::number) return {};
  constexpr size_t kShown = 5;
  const data::Split& train = *dataset.train;
  std::vector<bool> seen(static_cast<size_t>(dataset.info.classes));
  for (int64_t i = 0; i < train.size(); ++i) {
    for (const int32_t label : train.label_set(i)) seen[static_cast<size_t>(label)] = true;
  }
  const auto classes = std::count(seen.begin(), seen.end(), true);
  if (classes < 2) {
    fail("{} has training {}s of one class only, so there is nothing to learn: add another", name,
         dataset.info.noun());
  }
  std::vector<std::string> names;
  for (size_t c = 0; c < seen.size(); ++c) {
    if (!seen[c]) names.push_back(dataset.info.class_names[c]);
  }
  if (names.empty()) return {};
  const size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  return fmt::format("{} has no training {} of class {}{}", name, dataset.info.noun(),
                     fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<std::string> schedule_notes(const EpochSchedule& rate, int64_t run_epochs) {
  std::vector<std::string> notes;
  const auto epochs = static_cast<double>(run_epochs);
  if (!rate.milestones.empty()) {
    std::vector<double> late = rate.milestones;
    const bool never = late.front() >= epochs;
    std::erase_if(late, [&](double milestone) { return milestone < epochs; });
    if (never) {
      notes.push_back(
          fmt::format("the rate never drops: the run has {}, and its first milestone is {}; "
                      "`lr-milestones` sets others",
                      count(run_epochs, "epoch"), late.front()));
    } else if (!late.empty()) {
      notes.push_back(fmt::format("the run has {} only, and does not drop the rate at {}",
                                  count(run_epochs, "epoch"), fmt::join(late, ", ")));
    }
  }
  if (rate.warmup >= epochs) {
    notes.push_back(
        fmt::format("the rate never reaches {}: the run has {}, and its warm-up takes {}; "
                    "`warmup` sets another",
                    rate.lr, count(run_epochs, "epoch"), rate.warmup));
  }
  return notes;
}

std::optional<std::string> sparse_note(const RunConfig& config, const data::Dataset& dataset) {
  if (!dataset.info.room || config.teams.empty()) return {};
  const TrainOptions& o = config.options;
  const TeamConfig& team = config.teams.back();
  const bool freely = (!team.sync && !team.async) || config.is_live(team);
  const std::string why = !config.optimizer.slots.empty()
                              ? fmt::format("`momentum` {}", *o.momentum)
                          : *o.weight_decay > 0 ? fmt::format("`weight-decay` {}", *o.weight_decay)
                          : o.clip_norm         ? fmt::format("`clip-norm` {}", *o.clip_norm)
                          : o.splits > 1        ? fmt::format("`splits` {}", o.splits)
                          : freely              ? ""
                          : team.async && is_virtual(o) ? "`clock` virtual"
                                                        : "`sync` " + o.sync;
  const std::string passes =
      fmt::format("step passes over all weights, where a row has {:.0f} of {} features",
                  dataset.info.room->mean, grouped(dataset.info.image[0]));
  if (is_gpu(config.device.kind)) return "on a GPU each " + passes;
  if (why.empty()) {
    if (std::ranges::none_of(team.workers, &WorkerConfig::replica)) return {};
    return "a replica's " + passes;
  }
  return fmt::format("with {} each {}; plain SGD with `sync` none or hogwild does not", why,
                     passes);
}

std::optional<std::string> goodput_note(const RunConfig& config) {
  if (!config.tune_for_goodput || config.measures_noise(config.teams.back())) return {};
  return fmt::format(
      "with `sync` {} and `momentum` {} the noise of the gradients is not measured, so that the "
      "number of learners is chosen by images/s alone",
      config.options.sync, *config.options.momentum);
}

std::optional<std::string> precision_note(const RunConfig& config) {
  if (precision_name(config.options) == config.options.precision) return {};
  return "`precision` bf16: this processor has no instructions for it (AVX-512), so all is "
         "computed in f32";
}

std::optional<std::string> device_note(const RunConfig& config) {
  if (config.device.kind != kGpus || config.device.count == 1) return {};
  return "training on several GPUs has never been tried; docs/cuda.md says what has run where";
}

std::optional<std::string> patience_note(const RunConfig& config) {
  const int64_t evaluations = (config.epochs - 1) / config.eval_every + 1;
  if (!config.options.patience || evaluations - 1 > config.patience) return {};
  return fmt::format(
      "`patience` {} cannot end this run early: it has {}, as `epochs` and `eval-every` say",
      config.patience, count(evaluations, "evaluation"));
}

std::string promise(const RunConfig& config, LearnerChoice choice, bool kernels_kept) {
  const TrainOptions& o = config.options;
  if (o.replay) return "the same bits as " + *o.replay + " has, on this machine";
  const bool nodes = find_async(o.sync) && !is_alone(o);
  const bool real = !o.deterministic && o.clock != "virtual";
  if (real && has_unlike_workers(o.sync)) {
    return "workers take rows as they are ready, so results depend on timing; `clock` virtual "
           "gives their steps an order, which is the same in each run";
  }
  if (!config.teams.empty() && config.is_live(config.teams.front())) {
    return "nodes change one model at once, so results depend on timing; `clock` virtual gives "
           "their steps an order, which is the same in each run";
  }
  if (nodes && world()) {
    return "nodes of several ranks meet as they are ready, so results depend on timing; `replay` "
           "repeats this run";
  }
  if (nodes && real) {
    return "nodes take turns as they are ready, so results depend on timing; `clock` virtual fixes "
           "their order, and `replay` repeats that of this run";
  }
  switch (choice) {
    case LearnerChoice::fixed:
      if (config.options.resume && !config.options.learners && !config.deterministic) {
        return "the same bits from here on, on this machine; a new run may choose other learners";
      }
      if (!kernels_kept) {
        return "results depend on timing, as the chosen kernels cannot be kept in the cache "
               "folder; `deterministic` repeats them exactly";
      }
      return config.deterministic
                 ? "same seed, same bits, on every machine with this processor and as many cores"
                 : "same seed, same bits, on this machine; elsewhere with `deterministic`";
    case LearnerChoice::remembered:
      return "same seed, same bits, as long as the number of learners stays the same; `learners` N "
             "fixes it";
    case LearnerChoice::timed:
      break;
  }
  return "results depend on timing; `learners` N or `deterministic` repeats them exactly";
}

LossLevels loss_levels(const data::Dataset& dataset, const Loss& loss) {
  const data::Split& train = *dataset.train;
  if (dataset.info.label != LabelKind::number) {
    const int64_t classes = dataset.info.classes;
    const double labels = train.labels_per_sample();
    return {loss_of_zeros(loss, classes, labels), loss_of_a_guess(loss, classes, labels)};
  }
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(train.size());
  for (int64_t i = 0; i < train.size(); ++i) {
    const double number = train.number(i);
    mean += number / n;
    squares += number * number / n;
  }
  return {squares, squares - mean * mean};
}

LossWatch::LossWatch(int64_t classes, const LossLevels& levels, double lr)
    : classes_(static_cast<double>(classes)),
      guess_(levels.guess),
      far_(kFar * levels.zeros),
      lr_(lr),
      least_(std::numeric_limits<double>::infinity()) {}

std::optional<std::string> LossWatch::risen(double loss) {
  if (std::exchange(said_risen_, true)) return {};
  return fmt::format(
      "the loss is {:.4g}, far above the {:.4g} of a guess: the rate {} is probably too high; try "
      "`lr` {:.1g}",
      loss, guess_, lr_, lr_ / 10);
}

std::optional<std::string> LossWatch::look(double loss) {
  if (std::isnan(loss)) return {};
  least_ = std::min(least_, loss);
  // First weights of a net may be worse than a guess, so it must have been better before.
  if (loss <= far_ || loss <= 2 * least_) return {};
  return risen(loss);
}

/// With few, large steps the net may have learned although the mean loss of the epoch is still
/// high, so the other figures must agree.
bool LossWatch::guessed(const EpochRecord& e, double loss) const {
  constexpr double kFalls = 0.97, kFallen = 0.9;  // from epoch to epoch; below a guess's
  const double chance = 1 / classes_;
  return e.train_loss > 0.99 * guess_ && loss > kFallen * guess_ &&
         e.train_loss > kFalls * before_ && e.test_loss.value_or(guess_) > kFallen * guess_ &&
         e.test_accuracy.value_or(0) < (1 + chance) / 2;
}

std::optional<std::string> LossWatch::epoch_done(const EpochRecord& e, double loss) {
  if (std::min(e.train_loss, loss) > far_) return risen(e.train_loss);
  guessed_ = guessed(e, loss) ? guessed_ + 1 : 0;
  before_ = e.train_loss;
  if (guessed_ != 2) return {};
  // A rate below all that are usual is too low rather than too high.
  const double other = lr_ < 1e-4 ? 0.01 : lr_ / 10;
  return fmt::format(
      "nothing is learned: the loss is {:.4g}, and that of a guess {:.4g}; try `lr` {:.1g}",
      e.train_loss, guess_, other);
}

StatisticsWatch::StatisticsWatch(const Graph& forward, int64_t classes)
    : guess_(std::log(static_cast<double>(classes))) {
  constexpr double kTimes = 3;  // 1/(1-m): then the start counts for 5 %
  for (const int32_t id : forward.find("batch_norm")) {
    const double kept =
        forward.nodes()[static_cast<size_t>(id)].attrs<BatchNormAttributes>().momentum;
    young_ = std::max(young_, kTimes / std::max(1 - kept, 1e-9));
  }
}

std::optional<std::string> StatisticsWatch::epoch_done(const EpochRecord& e, int64_t steps) {
  const bool spoiled = e.test_loss.value_or(0) > kFar * guess_ && e.train_loss <= kFar * guess_;
  if (!spoiled || static_cast<double>(steps) >= young_ || std::exchange(said_, true)) return {};
  return fmt::format(
      "the test loss is {:.4g} and that of training {:.4g}: batch norm's running statistics are of "
      "{} only; train for more epochs, or measure them with `bn-images` 2048 in a new run",
      *e.test_loss, e.train_loss, count(steps, "step"));
}

}  // namespace crossbow
