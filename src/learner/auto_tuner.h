// How many learners, and how many threads each: found by trying while the training goes on.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "learner/arrangement.h"

namespace crossbow {

/// Climbs a ladder of arrangements while each is worth more than the best before it, by more than a
/// threshold and more than the measurements scatter; looks at one beyond a failure and at twice the
/// best one's learners, since many small steps may add up, then settles at the best. A tie is for
/// fewer learners. Told the throughput of steady windows, of which it takes a trimmed mean, so that
/// a single disturbance decides nothing; where windows scatter it asks for more. One thread.
class AutoTuner {
 public:
  /// What an arrangement is worth: its images/s times the share of them that count. A rise by less
  /// than the threshold is none.
  struct Goal {
    double threshold = 0.02;
    std::function<double(const Arrangement&)> share = [](const Arrangement&) { return 1.0; };
  };

  struct Trial {
    Arrangement arrangement;
    double rate = 0;   // images/s
    double error = 0;  // standard error of that, as a fraction
  };

  /// `watch`: goes on after settling, and searches again where the throughput has changed for good.
  AutoTuner(std::vector<Arrangement> ladder, bool watch);
  /// Starts with what an earlier search found best, which must be of the ladder; with `check`,
  /// looks at first whether the throughput is still the same, and searches if it is not.
  AutoTuner(std::vector<Arrangement> ladder, const Trial& known, bool check = true);

  /// To be called before the rest; else the goal is throughput.
  void aim(Goal goal) { goal_ = std::move(goal); }
  /// The share has changed. Where it has settled, it moves to what is the best now of all that it
  /// has tried; and it goes on climbing where the next rung's share has grown by more than the
  /// threshold since it settled.
  void reconsider();

  /// Tries nothing with more learners than that from now on; what runs stays.
  void limit(int learners);

  /// What was to run now cannot be had: settles at the best of fewer learners, which it has tried.
  void refuse();

  /// What is to run now.
  const Arrangement& current() const { return ladder_[at_]; }
  bool settled() const { return settled_; }
  /// Whether windows are still of interest.
  bool listening() const { return !settled_ || watch_ || checking_; }

  enum class Verdict { go_on, trial_done, settled, searching_again };
  /// A window's throughput with current(), which this call may change.
  Verdict add(double images_per_second);

  /// Of the search that runs or that ran last.
  const std::vector<Trial>& trials() const { return trials_; }
  const Trial& best() const { return trials_[best_]; }

 private:
  double worth(const Trial& trial) const { return trial.rate * goal_.share(trial.arrangement); }
  bool hopeless() const;
  /// Of the trials, but for a tie.
  void take_best();
  void settle();
  /// The first rung beyond those of the last search; the ladder's size if there is none.
  size_t untried() const;
  /// What an image counts for on that rung, beside one of the best trial.
  double relative_share(size_t rung) const;
  void note_share();
  Verdict finish_trial(const Trial& trial);
  Verdict compare_with_best();
  void move_to(size_t rung);
  size_t rung_of(const Arrangement& arrangement) const;

  std::vector<Arrangement> ladder_;
  Goal goal_;
  /// relative_share(untried()), since when shares are known.
  std::optional<double> share_when_settled_;
  const bool watch_;
  bool settled_ = false;
  bool checking_ = false;  // what was known before
  size_t at_ = 0;          // rung of the ladder
  size_t best_ = 0;        // trial
  int failures_ = 0;       // trials since the best
  int warming_up_;         // windows to be ignored
  int changes_ = 0;        // looks in a row that found another throughput
  std::vector<double> windows_;
  std::vector<Trial> trials_;
};

}  // namespace crossbow
