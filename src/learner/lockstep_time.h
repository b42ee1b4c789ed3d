// How long learners that wait for each other would take on the virtual clock.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "learner/engine_place.h"
#include "learner/lockstep.h"
#include "learner/pace.h"

namespace crossbow {

/// Follows the learners of a synchronous run, whose steps and exchanges take the times of a pace:
/// to be told of each iteration, it keeps when each learner is done. One exchange takes place at a
/// time. One thread.
class LockstepTime {
 public:
  /// An exchange sums up a vector of so many bytes.
  LockstepTime(int learners, uint64_t seed, Pace pace, int64_t bytes);

  /// When each learner was done with its last step, and when the last exchange was complete.
  struct Ends {
    std::vector<double> learners;
    double exchange = 0;
  };
  /// To where a run was, after so many iterations, without the nodes that it had lost.
  void restore(const Ends& ends, int64_t iterations, std::span<const LostNode> lost);
  Ends ends() const;

  /// The segment's, from 0 on; the first `active` learners have a batch.
  void iteration(const Lockstep& lockstep, int64_t i, int64_t active);
  /// After so many iterations. Of a whole segment all learners wait for the last one and for the
  /// last exchange; one that was cut short goes on in the next.
  void end_segment(const Lockstep& lockstep, int64_t iterations, bool whole);

  /// A learner that fails, and how many iterations of a segment all have in common: up to the last
  /// exchange, or the segment's end, that is complete before the learner fails.
  struct Loss {
    int64_t iterations = 0;
    int learner = 0, node = 0;
    double noticed = 0;  // by the others, a latency later
  };
  /// The first loss of a segment that is to have so many batches, if there is one. The last learner
  /// does not fail.
  std::optional<Loss> next_loss(const Lockstep& lockstep, int64_t batches) const;

  /// When the last learner is done, in steps of an ordinary one.
  double now() const;
  int64_t iterations() const { return learners_.front().steps; }
  /// How long a learner has waited for others.
  double waited(int learner) const { return learners_[static_cast<size_t>(learner)].waited; }

 private:
  struct Learner {
    int node = 0;
    double end = 0, waited = 0;
    int64_t steps = 0;
  };
  double latency() const { return pace_.network ? pace_.network->latency : 0; }
  /// When so many of the segment's exchanges were complete: all that are known, or one less. With
  /// none, when the last one before was.
  double complete(int64_t exchanges) const;
  /// Those before `end` that may begin after so many iterations.
  void add_exchanges(const Lockstep& lockstep, int64_t iterations, int64_t end);
  void meet_at(double time);

  const uint64_t seed_;
  const Pace pace_;
  const double exchange_;
  std::vector<Learner> learners_;
  int64_t exchanges_ = 0;             // of the segment
  std::array<double, 2> last_two_{};  // when the last but one was complete, and the last
};

}  // namespace crossbow
