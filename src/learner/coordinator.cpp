#include "learner/coordinator.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace crossbow {

std::vector<int64_t> Coordinator::sizes(int64_t least, int64_t most, int64_t alpha) {
  std::vector<int64_t> sizes;
  for (int64_t size = least; size <= most; size *= alpha) sizes.push_back(size);
  return sizes;
}

Coordinator::Coordinator(std::shared_ptr<const AsyncAlgorithm> algorithm,
                         std::vector<WorkerTerms> workers, int64_t rows, int64_t samples)
    : algorithm_(std::move(algorithm)),
      terms_(std::move(workers)),
      rows_(rows),
      samples_(samples),
      merges_(algorithm_->traits().merges) {
  for (size_t w = 0; w < terms_.size(); ++w) {
    worker_of_.insert(worker_of_.end(), static_cast<size_t>(terms_[w].nodes), static_cast<int>(w));
    states_.push_back({.size = terms_[w].first});
    living_.push_back(terms_[w].nodes);
  }
}

std::optional<int64_t> Coordinator::oldest() const {
  if (given_back_.empty()) return {};
  const auto first = std::min_element(given_back_.begin(), given_back_.end(),
                                      [](auto& a, auto& b) { return a.first < b.first; });
  return first->first;
}

/// Of what was given back, else of the rest of the segment, as much as a step of the worker has.
/// What is less than any step of those that still work is filled up with rows before it.
std::optional<Work> Coordinator::next(int node) {
  const auto w = static_cast<size_t>(worker_of(node));
  const bool again = !given_back_.empty();
  Work left = again ? given_back_.back() : Work{.first = next_, .count = end_ - next_};
  if (left.count == 0) return {};
  int64_t size = states_[w].size;
  const auto is_too_large = [&] { return size > left.count || size * rows_ > samples_; };
  while (is_too_large() && size > terms_[w].least) size /= algorithm_->step_factor();
  if (size > left.count) {
    for (size_t other = 0; other < terms_.size(); ++other) {
      if (works(other) && terms_[other].least < size) return {};  // it has smaller ones
    }
  }
  Work work{
      .first = left.first, .count = std::min(size, left.count), .size = size, .second_try = again};
  left.first += work.count;
  left.count -= work.count;
  if (!again) {
    next_ = left.first;
  } else if (left.count > 0) {
    given_back_.back() = left;
  } else {
    given_back_.pop_back();
  }
  WorkerState& state = states_[w];
  state.least = state.least == 0 ? size : std::min(state.least, size);
  state.most = std::max(state.most, size);
  state.repeated += size - work.count;
  return work;
}

void Coordinator::done(int node) {
  const auto w = static_cast<size_t>(worker_of(node));
  states_[w].updates += terms_[w].updates_per_step;
  if (merges_) return;
  if (++states_[w].steps >= living_[w]) adapt(w);
}

/// Once for as many steps as the worker has nodes; where replicas are merged, at the end of a
/// round. Then the updates become those that there would have been with the new size, so that two
/// workers that differ do not both change for the same difference.
void Coordinator::adapt(size_t worker) {
  WorkerState& state = states_[worker];
  state.steps = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least, all = 0;
  int others = 0;
  for (size_t other = 0; other < states_.size(); ++other) {
    if (other == worker || !works(other)) continue;
    least = std::min(least, states_[other].updates);
    most = std::max(most, states_[other].updates);
    all += states_[other].updates;
    ++others;
  }
  if (others == 0) return;
  const int64_t asked =
      algorithm_->next_size(state.size, {state.updates, least, most, all / others});
  const int64_t size = std::clamp(asked, terms_[worker].least, terms_[worker].most);
  if (merges_) state.updates *= static_cast<double>(state.size) / static_cast<double>(size);
  state.size = size;
}

void Coordinator::give_back(int node, const Work& work, const data::Batch&) {
  const auto w = static_cast<size_t>(worker_of(node));
  given_back_.push_back({.first = work.first, .count = work.count});
  if (!merges_) states_[w].repeated += work.count;  // else nothing of the step is in the model
  --living_[w];
}

Fetched Coordinator::fetch(const Work& work, int node) {
  const int64_t rows = work.size * rows_;
  const int64_t end = std::min((work.first + work.count) * rows_, samples_);
  const int64_t first = std::max<int64_t>(0, end - rows);
  return {&source().acquire_rows(first, rows, node), &source(), work.first, work.count, first};
}

void Coordinator::end_round(bool whole) {
  for (size_t w = 0; w < states_.size() && merges_ && whole; ++w) {
    if (works(w)) adapt(w);
  }
  for (WorkerState& state : states_) state.updates = 0;
}

void Coordinator::restore(const std::vector<WorkerState>& states,
                          std::span<const int> living_nodes) {
  states_ = states;
  std::fill(living_.begin(), living_.end(), 0);
  for (const int node : living_nodes) ++living_[static_cast<size_t>(worker_of(node))];
}

}  // namespace crossbow
