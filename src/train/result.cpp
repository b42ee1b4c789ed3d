#include "train/result.h"

#include <algorithm>

namespace crossbow {

TrainResult result_of(const RunConfig& config, const std::vector<EpochRecord>& history,
                      const Position& position, int64_t samples_seen) {
  TrainResult r;
  r.options = config.options;
  r.history = history;
  r.arrangement = position.arrangement;
  r.waiting_seconds = position.waiting_seconds;
  r.lr_factor = position.rate_factor.at(samples_seen);
  // A run that ends at its target does so at once; a resumed one may have a lower one than before.
  const bool reached = !history.empty() && config.is_reached_by(history.back());
  for (const EpochRecord& e : history) {
    r.train_seconds += e.seconds;
    if (!e.test_loss) continue;
    r.final_test_accuracy = e.test_accuracy;
    r.final_test_loss = e.test_loss;
    r.final_test_top5 = e.test_top5;
    r.final_test_auc = e.test_auc;
    r.final_test_rmse = e.test_rmse;
  }
  if (reached) {
    r.epochs_to_target = history.back().epoch;
    r.seconds_to_target = r.train_seconds;
  }
  if (const EpochRecord* const best = best_of(history)) {
    r.best_test_accuracy = best->test_accuracy;
    r.best_test_rmse = best->test_rmse;
  }
  r.train_seconds += position.seconds;
  if (r.train_seconds > 0) {
    r.images_per_second = static_cast<double>(samples_seen) / r.train_seconds;
  }
  return r;
}

}  // namespace crossbow
