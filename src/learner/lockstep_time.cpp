#include "learner/lockstep_time.h"

#include <algorithm>
#include <cassert>

namespace crossbow {

LockstepTime::LockstepTime(int learners, uint64_t seed, Pace pace, int64_t bytes)
    : seed_(seed),
      pace_(std::move(pace)),
      exchange_(pace_.network ? pace_.network->sum(learners, bytes) : 0),
      learners_(static_cast<size_t>(learners)) {}

void LockstepTime::restore(const Ends& ends, int64_t iterations) {
  for (size_t j = 0; j < learners_.size(); ++j) {
    learners_[j] = {.end = ends.learners[j], .steps = iterations};
  }
  last_two_[1] = ends.exchange;
}

LockstepTime::Ends LockstepTime::ends() const {
  Ends ends{.exchange = last_two_[1]};
  for (const Learner& learner : learners_) ends.learners.push_back(learner.end);
  return ends;
}

void LockstepTime::meet_at(double time) {
  for (Learner& learner : learners_) {
    learner.waited += time - learner.end;
    learner.end = time;
  }
}

void LockstepTime::end_segment(const Lockstep& lockstep, int64_t iterations, bool whole) {
  add_exchanges(lockstep, iterations, lockstep.exchanges_before(iterations));
  exchanges_ = 0;
  if (!whole) return;
  last_two_[1] = std::max(now(), complete(0));
  meet_at(last_two_[1]);
}

double LockstepTime::now() const {
  double last = 0;
  for (const Learner& learner : learners_) last = std::max(last, learner.end);
  return last;
}

double LockstepTime::complete(int64_t exchanges) const {
  assert(exchanges == exchanges_ || exchanges + 1 == exchanges_);
  return exchanges == exchanges_ ? last_two_[1] : last_two_[0];
}

void LockstepTime::add_exchanges(const Lockstep& lockstep, int64_t iterations, int64_t end) {
  while (exchanges_ < end && lockstep.needed_to_exchange(exchanges_) <= iterations) {
    last_two_ = {last_two_[1], std::max(now(), complete(exchanges_)) + exchange_};
    ++exchanges_;
  }
}

void LockstepTime::iteration(const Lockstep& lockstep, int64_t i, int64_t active) {
  add_exchanges(lockstep, i, lockstep.exchanges_before(i + 1));
  const double exchanged = complete(lockstep.exchanges_before(i));
  const double may_begin = lockstep.waits_to_begin() ? exchanged : 0;
  const double may_end = lockstep.waits_to_update(i) ? exchanged : 0;
  for (size_t j = 0; j < learners_.size(); ++j) {
    Learner& learner = learners_[j];
    const double begin = std::max(learner.end, may_begin);
    const double full = pace_.duration(seed_, static_cast<int>(j), learner.steps++, 0);
    const double duration = static_cast<int64_t>(j) < active ? full : 0;
    const double end = std::max(begin + duration, may_end);
    learner.waited += end - learner.end - duration;
    learner.end = end;
  }
}

}  // namespace crossbow
