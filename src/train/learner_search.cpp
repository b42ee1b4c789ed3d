#include "train/learner_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/text.h"
#include "graph/cost.h"

namespace crossbow {
namespace {

std::string text_or(const std::optional<int64_t>& value, const char* otherwise) {
  return value ? std::to_string(*value) : otherwise;
}

std::string key_of(const RunConfig& config, const Graph& forward) {
  const TrainOptions& o = config.options;
  return fmt::format(
      "learners: {} of {} parameters and {:.0f} FLOP, batch {} in {}, {} parts, momentum {}{}, {} "
      "with period {}, for {}, {} of {} cores and {:.0f} GiB, {} threads{}",
      o.model, parameter_count(forward), flop_count(forward), o.batch, o.precision, o.splits,
      config.optimizer.slots.empty() ? "off" : "on", config.clip_norm > 0 ? ", clipped" : "",
      o.sync, text_or(o.sync_period, "auto"), o.tune_for.value_or("-"), o.device,
      device_kind(config.device.kind).cores, find_device(config.device.kind).memory_mb() / 1024,
      text_or(o.threads_per_learner, "any"),
      config.freeze ? fmt::format(", frozen {}", *config.freeze) : "");
}

std::vector<Arrangement> arrangements_in(const std::vector<TeamConfig>& teams) {
  std::vector<Arrangement> all;
  for (const TeamConfig& team : teams) all.push_back(team.arrangement);
  return all;
}

std::string remembered_text(const Arrangement& a) {
  return text_of(a) + ", images/s: ";
}

}  // namespace

LearnerSearch::LearnerSearch(const RunConfig& config, const Graph& forward, Tuner& memory,
                             Throughput& throughput, Observer& observer)
    : batch_(config.batch),
      devices_(config.device.count),
      cores_(device_kind(config.device.kind).cores),
      candidates_(arrangements_in(config.teams)),
      retune_(config.retune),
      key_(key_of(config, forward)),
      memory_(memory),
      throughput_(throughput),
      observer_(observer),
      for_goodput_(config.tune_for_goodput) {}

template <typename... Args>
void LearnerSearch::make_tuner(const Args&... args) {
  tuner_.emplace(candidates_, args...);
  if (!for_goodput_) return;
  tuner_->aim({.threshold = 0.05, .share = [this](const Arrangement& a) { return share_of(a); }});
}

double LearnerSearch::share_of(const Arrangement& a) const {
  return noise_scale_ ? efficiency(*noise_scale_, batch_, int64_t{devices_} * a.learners) : 1;
}

Arrangement LearnerSearch::start() {
  const auto known = candidates_.size() > 1 && !retune_ ? remembered() : std::nullopt;
  if (!known) return start_anew();
  observer_.note(fmt::format("{}, found the best before: {:.0f} images/s; `retune` looks again",
                             text_of(known->arrangement), known->rate));
  make_tuner(*known);
  return known->arrangement;
}

Arrangement LearnerSearch::start_anew() {
  given_ = candidates_[0];
  tuner_.reset();
  if (candidates_.size() > 1) make_tuner(retune_);
  return wanted();
}

Arrangement LearnerSearch::start_below_remembered() {
  keep_at_most(wanted().learners - 1);
  return start_anew();
}

std::optional<AutoTuner::Trial> LearnerSearch::remembered() {
  const std::string text = memory_.recall(key_).value_or("");
  for (const Arrangement& candidate : candidates_) {
    const std::string start = remembered_text(candidate);
    if (!text.starts_with(start)) continue;
    const double rate = std::atof(text.c_str() + start.size());
    if (rate > 0) return AutoTuner::Trial{candidate, rate, 0};
  }
  return {};
}

void LearnerSearch::resume(const Arrangement& arrangement, bool settled,
                           std::vector<LearnerChange> changes, std::optional<double> noise_scale) {
  if (for_goodput_) noise_scale_ = noise_scale;
  ahead_.assign(changes.begin(), changes.end());
  start_again(arrangement, settled);
}

std::optional<LearnerChange> LearnerSearch::due(std::pair<int64_t, int64_t> place,
                                                bool settled) const {
  if (!ahead_.empty()) {
    if (ahead_.front().place() > place) return {};
    return ahead_.front();
  }
  if (!moving() && this->settled() == settled) return {};
  return LearnerChange{place.first, place.second, wanted(), this->settled()};
}

void LearnerSearch::made(const LearnerChange& change) {
  if (ahead_.empty()) {
    moving_ = false;
  } else {
    ahead_.pop_front();
    start_again(change.arrangement, change.settled);
  }
}

void LearnerSearch::start_again(const Arrangement& arrangement, bool settled) {
  tuner_.reset();
  given_ = settled ? arrangement : candidates_[0];
  if (candidates_.size() > 1) settled && !retune_ ? stay_on(arrangement) : make_tuner(retune_);
  moving_ = wanted() != arrangement;
  if (wanted().threads > cores_ && wanted() != candidates_[0]) {
    observer_.note(
        fmt::format("{} on {} cores, as the run has settled on a larger machine; "
                    "`retune` looks again",
                    text_of(wanted()), cores_));
  }
}

void LearnerSearch::stay_on(const Arrangement& arrangement) {
  const auto known = for_goodput_ ? remembered() : std::nullopt;
  if (!known || known->arrangement != arrangement) return;
  make_tuner(*known, /*check=*/false);
  tuner_->reconsider();  // notes the share of today's noise, from which on it may grow
}

LearnerChoice LearnerSearch::choice() const {
  if (!tuner_) return LearnerChoice::fixed;
  return settled() ? LearnerChoice::remembered : LearnerChoice::timed;
}

std::vector<LearnerTrial> LearnerSearch::tried() const {
  std::vector<LearnerTrial> all;
  if (!tuner_) return all;
  for (const AutoTuner::Trial& trial : tuner_->trials()) {
    all.push_back({trial.arrangement, trial.rate * share_of(trial.arrangement)});
  }
  return all;
}

void LearnerSearch::keep_at_most(int learners) {
  while (candidates_.size() > 1 && candidates_.back().learners > learners) candidates_.pop_back();
}

void LearnerSearch::limit(int learners) {
  if (candidates_.back().learners <= learners) return;
  keep_at_most(learners);
  if (!tuner_) return;
  tuner_->limit(learners);
  if (settled()) return;
  observer_.note(fmt::format("there is memory for at most {}{}", count(learners, "learner"),
                             devices_ > 1 ? " on each device" : ""));
}

void LearnerSearch::refuse() {
  keep_at_most(wanted().learners - 1);
  tuner_->refuse();
  tell_choice();  // which runs to come, with more memory, need not make
}

void LearnerSearch::progress(int64_t batches) {
  if (!tuner_ || !tuner_->listening() || !ahead_.empty() || moving()) return;
  const auto rate = throughput_.window(batches, int64_t{devices_} * wanted().learners);
  if (!rate) return;
  const Arrangement before = wanted();
  switch (tuner_->add(*rate * static_cast<double>(batch_))) {
    case AutoTuner::Verdict::go_on:
      return;
    case AutoTuner::Verdict::trial_done:
      tell(tuner_->trials().back());
      break;
    case AutoTuner::Verdict::settled:
      tell(tuner_->trials().back());
      settle();
      break;
    case AutoTuner::Verdict::searching_again:
      by_noise_ = false;
      observer_.note("the speed has changed: looking for the best number of learners again");
  }
  moving_ = wanted() != before;
}

void LearnerSearch::reconsider(std::optional<double> noise_scale) {
  if (!for_goodput_) return;
  noise_scale_ = noise_scale;
  if (!tuner_ || !ahead_.empty() || moving()) return;
  const Arrangement before = wanted();
  tuner_->reconsider();
  moving_ = wanted() != before;
  if (!moving_) return;
  by_noise_ = true;
  observer_.note(fmt::format("the noise of the gradients has changed: {} {}",
                             settled() ? "going on with" : "trying", text_of(wanted())));
}

void LearnerSearch::tell(const AutoTuner::Trial& trial) {
  const std::string count =
      noise_scale_ ? fmt::format(", of which {:.0f} % count", 100 * share_of(trial.arrangement))
                   : "";
  observer_.note(fmt::format("tried {}: {:.0f} images/s ± {:.1f} %{}", text_of(trial.arrangement),
                             trial.rate, 100 * trial.error, count));
}

void LearnerSearch::remember_best() {
  const AutoTuner::Trial& best = tuner_->best();
  memory_.remember(key_, remembered_text(best.arrangement) + fmt::format("{:.1f}", best.rate));
}

void LearnerSearch::settle() {
  if (!by_noise_) remember_best();  // else another run's early epochs would begin with it
  tell_choice();
}

void LearnerSearch::tell_choice() {
  observer_.note(fmt::format("going on with {}, the best of {}",
                             text_of(tuner_->best().arrangement), tuner_->trials().size()));
}

}  // namespace crossbow
