#include "learner/auto_tuner.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace crossbow {
namespace {

constexpr double kCertain = 4;     // standard errors that a rise must exceed
constexpr double kSteady = 0.005;  // a standard error as small as this is good enough
constexpr size_t kWindows = 10, kMostWindows = 30;
constexpr size_t kHopelessWindows = 3;  // all below this share of the best end a trial
constexpr double kHopeless = 0.6;
constexpr int kWarmUp = 1;              // windows after each change
constexpr int kPatience = 2;            // trials without a rise that end a search,
constexpr int kReach = 2;               // if they came to so many times the best one's learners
constexpr size_t kWatchedWindows = 20;  // looked at together once settled
constexpr double kChange = 0.15;        // of the throughput, that asks for another search
constexpr double kTrim = 0.1;           // of the windows, on either side

struct Estimate {
  double mean = 0, error = 0;  // the standard error, as a fraction
};

/// The trimmed mean, and its standard error from the winsorised variance (Tukey and McLaughlin
/// 1963): one window may be anything.
Estimate estimate(std::vector<double> windows) {
  std::sort(windows.begin(), windows.end());
  const size_t n = windows.size(), cut = static_cast<size_t>(kTrim * static_cast<double>(n));
  for (size_t i = 0; i < cut; ++i) {
    windows[i] = windows[cut];
    windows[n - 1 - i] = windows[n - 1 - cut];
  }
  const auto count = static_cast<double>(n), kept = static_cast<double>(n - 2 * cut);
  double kept_sum = 0, sum = 0, squares = 0;
  for (size_t i = cut; i < n - cut; ++i) kept_sum += windows[i];
  for (const double w : windows) sum += w;
  for (const double w : windows) squares += (w - sum / count) * (w - sum / count);
  const double mean = kept_sum / kept;
  const double error = std::sqrt(squares / (count - 1) * count) / kept;
  return {mean, mean > 0 ? error / mean : 1};
}

}  // namespace

AutoTuner::AutoTuner(std::vector<Arrangement> ladder, bool watch)
    : ladder_(std::move(ladder)), watch_(watch), warming_up_(kWarmUp) {}

AutoTuner::AutoTuner(std::vector<Arrangement> ladder, const Trial& known, bool check)
    : AutoTuner(std::move(ladder), /*watch=*/false) {
  settled_ = true;
  checking_ = check;
  at_ = rung_of(known.arrangement);
  trials_.push_back(known);
}

void AutoTuner::limit(int learners) {
  while (ladder_.size() > at_ + 1 && ladder_.back().learners > learners) ladder_.pop_back();
}

void AutoTuner::refuse() {
  const int learners = current().learners;
  ladder_.resize(at_);
  std::erase_if(trials_, [&](const Trial& t) { return t.arrangement.learners >= learners; });
  assert(!trials_.empty());
  if (best_ >= trials_.size()) best_ = 0;
  take_best();
  settle();
}

size_t AutoTuner::rung_of(const Arrangement& arrangement) const {
  return static_cast<size_t>(std::find(ladder_.begin(), ladder_.end(), arrangement) -
                             ladder_.begin());
}

void AutoTuner::move_to(size_t rung) {
  if (rung != at_) warming_up_ = kWarmUp;
  at_ = rung;
  windows_.clear();
}

AutoTuner::Verdict AutoTuner::add(double images_per_second) {
  if (!listening()) return Verdict::go_on;
  if (warming_up_ > 0) {
    --warming_up_;
    return Verdict::go_on;
  }
  windows_.push_back(images_per_second);
  const bool ended = !settled_ && hopeless();
  if (!ended && windows_.size() < kWindows) return Verdict::go_on;
  if (settled_) return compare_with_best();
  const auto [rate, error] = estimate(windows_);
  if (!ended && error > kSteady && windows_.size() < kMostWindows) return Verdict::go_on;
  return finish_trial({current(), rate, error});
}

bool AutoTuner::hopeless() const {
  if (trials_.empty() || windows_.size() < kHopelessWindows) return false;
  const double needed = kHopeless * worth(best()) / goal_.share(current());
  return std::all_of(windows_.begin(), windows_.end(), [&](double rate) { return rate < needed; });
}

AutoTuner::Verdict AutoTuner::finish_trial(const Trial& trial) {
  trials_.push_back(trial);
  const Trial& before = trials_[best_];
  const double scatter = std::hypot(trial.error, before.error);
  const bool rises =
      worth(trial) > worth(before) * (1 + std::max(goal_.threshold, kCertain * scatter));
  if (trials_.size() == 1 || rises) {
    best_ = trials_.size() - 1;
    failures_ = 0;
  } else {
    ++failures_;
  }
  const int far = kReach * best().arrangement.learners;
  if ((failures_ < kPatience || current().learners < far) && at_ + 1 < ladder_.size()) {
    size_t next = at_ + 1;
    while (failures_ >= kPatience && ladder_[next].learners < far && next + 1 < ladder_.size())
      ++next;
    move_to(next);
    return Verdict::trial_done;
  }
  settle();
  return Verdict::settled;
}

void AutoTuner::take_best() {
  for (size_t i = 0; i < trials_.size(); ++i) {
    if (worth(trials_[i]) > worth(best()) * (1 + goal_.threshold)) best_ = i;
  }
}

void AutoTuner::settle() {
  settled_ = true;
  share_when_settled_.reset();
  note_share();
  move_to(rung_of(best().arrangement));
}

size_t AutoTuner::untried() const {
  size_t last = 0;
  for (const Trial& trial : trials_) last = std::max(last, rung_of(trial.arrangement));
  return last + 1;
}

double AutoTuner::relative_share(size_t rung) const {
  return rung < ladder_.size() ? goal_.share(ladder_[rung]) / goal_.share(best().arrangement) : 1;
}

void AutoTuner::note_share() {
  const double share = relative_share(untried());
  if (!share_when_settled_ && share < 1) share_when_settled_ = share;
}

void AutoTuner::reconsider() {
  if (!settled_ || trials_.empty()) return;
  const size_t before = best_;
  take_best();
  const size_t next = untried();
  note_share();
  const bool more = next < ladder_.size() && share_when_settled_;
  if (more && relative_share(next) > *share_when_settled_ * (1 + goal_.threshold)) {
    settled_ = checking_ = false;
    failures_ = 0;
    move_to(next);
  } else if (best_ != before) {
    settle();
  }
}

AutoTuner::Verdict AutoTuner::compare_with_best() {
  if (!checking_ && windows_.size() < kWatchedWindows) return Verdict::go_on;
  const double rate = estimate(windows_).mean;
  windows_.clear();
  const bool changed = std::abs(rate - best().rate) > kChange * best().rate;
  changes_ = changed ? changes_ + 1 : 0;
  if (changes_ == 1) return Verdict::go_on;  // it may pass
  checking_ = false;
  if (!changed) return Verdict::go_on;
  settled_ = false;
  trials_.clear();
  best_ = 0;
  failures_ = changes_ = 0;
  move_to(0);
  return Verdict::searching_again;
}

}  // namespace crossbow
