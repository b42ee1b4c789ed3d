// What a run tells its user beside its numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "graph/graph.h"
#include "train/record.h"
#include "train/run_config.h"

namespace crossbow {

/// Throws Error unless two classes have training images; else names the classes that have none, if
/// there are any.
std::optional<std::string> class_note(const std::string& name, const data::Dataset& dataset);

/// Of sparse rows: which setting makes each step pass over all weights, if one does.
std::optional<std::string> sparse_note(const RunConfig& config, const data::Dataset& dataset);

/// That the number of learners is chosen without what the gradients' noise says.
std::optional<std::string> goodput_note(const RunConfig& config);

/// What the schedule does only after the run's last epoch.
std::vector<std::string> schedule_notes(const EpochSchedule& rate, int64_t epochs);

/// What a user who asked for a precision should know of it: a sentence, or nothing.
std::optional<std::string> precision_note(const RunConfig& config);

/// Of devices that have never been tried.
std::optional<std::string> device_note(const RunConfig& config);

/// That a run is evaluated too seldom to be ended by patience.
std::optional<std::string> patience_note(const RunConfig& config);

/// Who has decided on a run's number of learners.
enum class LearnerChoice {
  fixed,       // the user, or the run before it was resumed
  remembered,  // an earlier run's timing, which this one checks
  timed        // this run, while it trains
};
/// When another run with the same options has the same bits. `kernels_kept`: it will choose the
/// kernels of this one.
std::string promise(const RunConfig& config, LearnerChoice choice, bool kernels_kept);

/// What the losses of training mean.
struct LossLevels {
  double zeros =
      0;  // of a net whose outputs are all 0, as those of one without training nearly are
  double guess = 0;  // of the best outputs that do not depend on the input
};
LossLevels loss_levels(const data::Dataset& dataset, const Loss& loss);

/// Sees a run that goes wrong. One thread.
class LossWatch {
 public:
  LossWatch(int64_t classes, const LossLevels& levels, double lr);

  /// Of training, smoothed, now and then.
  std::optional<std::string> look(double loss);
  /// After an epoch, at whose end the smoothed loss was `loss`.
  std::optional<std::string> epoch_done(const EpochRecord& record, double loss);

 private:
  std::optional<std::string> risen(double loss);
  bool guessed(const EpochRecord& record, double loss) const;

  const double classes_, guess_, far_, lr_;
  double least_;       // smoothed loss so far
  double before_ = 0;  // mean loss of the epoch before
  int guessed_ = 0;    // epochs in a row
  bool said_risen_ = false;
};

/// Sees a model whose test loss is spoiled by running statistics that are still near what they
/// started from. One thread.
class StatisticsWatch {
 public:
  /// `forward` is the net that is trained.
  StatisticsWatch(const Graph& forward, int64_t classes);

  /// After an epoch; the statistics are running means over `steps` batches. Says it once.
  std::optional<std::string> epoch_done(const EpochRecord& record, int64_t steps);

 private:
  const double guess_;
  double young_ = 0;  // steps after which the start counts for little; 0 without batch norm
  bool said_ = false;
};

}  // namespace crossbow
