// Training a net: the whole job in one call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "learner/memory.h"
#include "models/model.h"
#include "train/observer.h"
#include "train/options.h"
#include "train/record.h"

namespace crossbow {

/// What `TrainOptions::model` becomes for a net of one's own.
constexpr const char* kOwnModel = "own";

/// What a search for the number of learners measured: images/s, of them those that count.
struct LearnerTrial {
  Arrangement arrangement;
  double goodput = 0;
};

/// What a run measured; of a resumed run, the part before included.
struct TrainResult {
  TrainOptions options;     // resolved
  Arrangement arrangement;  // at the end
  std::vector<EpochRecord> history;
  std::optional<double> final_test_accuracy, best_test_accuracy, final_test_loss;
  std::optional<double> final_test_top5;                  // of many classes
  std::optional<double> final_test_auc;                   // of two classes
  std::optional<double> final_test_rmse, best_test_rmse;  // of numbers, which have no accuracy
  LabelKind label = LabelKind::one_class;   // with sets of classes accuracies are precision@1
  std::optional<int64_t> epochs_to_target;  // set if the options' target was reached
  std::optional<double> seconds_to_target;  // of training
  double seconds = 0;                       // from the call to the result, of all its processes
  double train_seconds = 0;                 // without start-up and evaluation
  double images_per_second = 0;             // over train_seconds
  std::vector<LearnerTrial> tried;          // by the last search of this process, if any
  double lr_factor = 1;                     // of the rate of one learner, at the end
  double waiting_seconds = 0;               // of these: steps that waited for data
  int64_t parameters = 0;                   // trained values
  int64_t frozen = 0;                       // the other values of parameters
  LearnerMemory memory;                     // of the learners at the end
  std::vector<NodeState> nodes;             // of an asynchronous run, at the end
  std::vector<WorkerReport> workers;        // to whom the nodes belong, if they are unlike
  /// On the virtual clock, where an ordinary step takes what options.step_times says, or what one
  /// has taken in the mean.
  std::optional<double> virtual_seconds;
  std::vector<LostNode> lost_nodes;        // simulated ones that wait for each other; likewise
  std::optional<int64_t> ranks;            // of a cluster, at the end
  std::vector<RankLoss> lost_ranks;        // in this order, and the rest went on
  bool interrupted = false;                // ended by Observer::stop_requested
  bool stopped_early = false;              // because options.patience was at its end
  std::optional<int64_t> best_epoch_kept;  // as OUT/checkpoint.best
};

/// Trains the model that the options name, or a net of one's own, and evaluates it. With
/// `options.out`, leaves a checkpoint, metrics and the configuration in that folder. The calling
/// thread trains. Throws UsageError for options that make no sense, Error for data that is missing
/// or damaged, a folder that cannot be written, a loss that is not finite.
TrainResult train(const TrainOptions& options, Observer* observer = nullptr);
TrainResult train(const ModelFunction& logits, const TrainOptions& options,
                  Observer* observer = nullptr);

/// From the options that a run had to those that it goes on with.
using OptionsChange = std::function<TrainOptions(const TrainOptions& before)>;
/// Goes on with the run in `folder`, whose options `change` may alter as TrainOptions::resume says.
/// The rest is as of train().
TrainResult resume(const std::string& folder, const OptionsChange& change,
                   Observer* observer = nullptr);

}  // namespace crossbow
