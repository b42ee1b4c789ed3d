#include "learner/lockstep_time.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace crossbow {

LockstepTime::LockstepTime(int learners, uint64_t seed, Pace pace, int64_t bytes)
    : seed_(seed),
      pace_(std::move(pace)),
      exchange_(pace_.network ? pace_.network->sum(learners, bytes) : 0),
      learners_(static_cast<size_t>(learners)) {
  for (int j = 0; j < learners; ++j) learners_[static_cast<size_t>(j)].node = j;
}

void LockstepTime::restore(const Ends& ends, int64_t iterations, std::span<const LostNode> lost) {
  const auto is_lost = [&](int node) {
    return std::ranges::find(lost, node, &LostNode::node) != lost.end();
  };
  int node = 0;
  for (size_t j = 0; j < learners_.size(); ++j, ++node) {
    while (is_lost(node)) ++node;
    learners_[j] = {.node = node, .end = ends.learners[j], .steps = iterations};
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
  const double may_begin = lockstep.waits_to_begin() ? complete(lockstep.needed_to_begin(i)) : 0;
  const double may_end = lockstep.waits_to_update(i) ? complete(lockstep.needed_to_update(i)) : 0;
  for (size_t j = 0; j < learners_.size(); ++j) {
    Learner& learner = learners_[j];
    const double begin = std::max(learner.end, may_begin);
    const double full = pace_.duration(seed_, learner.node, learner.steps++, 0);
    const double duration = static_cast<int64_t>(j) < active ? full : 0;
    const double end = std::max(begin + duration, may_end);
    learner.waited += end - learner.end - duration;
    learner.end = end;
  }
}

std::optional<LockstepTime::Loss> LockstepTime::next_loss(const Lockstep& lockstep,
                                                          int64_t batches) const {
  const auto fails_at = [this](const Learner& learner) { return pace_.fails_at(learner.node); };
  const auto first = std::ranges::min_element(learners_, {}, fails_at);
  const double fails = fails_at(*first);
  if (learners_.size() == 1 || std::isinf(fails)) return {};
  Loss loss{0, static_cast<int>(first - learners_.begin()), first->node, 0};
  double met = std::max(now(), complete(0));
  LockstepTime ahead = *this;
  const auto k = std::ssize(learners_);
  for (int64_t i = 0; i * k < batches; ++i) {
    ahead.iteration(lockstep, i, batches - i * k);
    const bool is_last = (i + 1) * k >= batches;
    if (!lockstep.exchanges_at(i) && !is_last) continue;
    const int64_t exchanges = lockstep.exchanges_before(i + 1);
    ahead.add_exchanges(lockstep, i + 1, exchanges);
    const double meet = std::max(ahead.now(), ahead.complete(exchanges));
    if (meet > fails) {
      loss.noticed = std::max(met, fails + latency());
      return loss;
    }
    loss.iterations = i + 1;
    met = meet;
  }
  return {};
}

}  // namespace crossbow
