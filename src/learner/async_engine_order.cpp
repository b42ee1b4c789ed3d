// The order in which nodes take turns, and messages come, written down or repeated.
#include "core/error.h"
#include "learner/async_engine.h"

namespace crossbow {

std::optional<RankEvent> AsyncEngine::event_to_replay() const {
  if (events_ >= settings_.replay.size()) return {};
  return RankEvent::of(settings_.replay[events_]);
}

int AsyncEngine::next_replayed() const {
  const auto event = event_to_replay();
  if (!event || event->kind == RankEvent::Kind::arrival) return -1;
  const int node = event->node - first_learner();
  const NodeClock& c = clock(node);
  const bool goes_on = event->kind == RankEvent::Kind::answer;
  if (c.phase != Phase::waits_for_turn || goes_on != (c.asked != Asked::nothing)) return -1;
  const bool may = goes_on ? nodes_.is_answered(node)
                           : !c.parked && !leaves_the_rest() && nodes_.may_take_turn(node);
  return may ? node : -1;
}

void AsyncEngine::note(const RankEvent& event) {
  ++events_;
  order_.push_back(event.code());
}

/// Of a replayed order, where nothing is under way that could make one possible.
void AsyncEngine::expect_more_turns() const {
  if (!replays()) return;
  for (const NodeClock& c : clocks_) {
    if (c.phase != Phase::waits_for_turn) return;
  }
  if (mail_) {
    return expect_more_events();
  }
  if (turns_ < static_cast<int64_t>(settings_.replay.size())) {
    crossbow::fail(
        "the order to be replayed is of another run: turn {} is node {}'s, which has none", turns_,
        settings_.replay[static_cast<size_t>(turns_)]);
  }
  crossbow::fail("the order to be replayed ends after {} turns, and the run does not", turns_);
}

RankEvent AsyncEngine::expected_event() const {
  if (const auto event = event_to_replay()) return *event;
  crossbow::fail("the order to be replayed ends after {} events, and the run does not", events_);
}

/// What is to happen next may yet become possible through other ranks.
void AsyncEngine::expect_more_events() const {
  const RankEvent event = expected_event();
  if (event.kind == RankEvent::Kind::arrival) return;
  const NodeClock& c = clock(event.node - first_learner());
  const bool asks = c.asked != Asked::nothing;
  const bool goes_on = event.kind == RankEvent::Kind::answer;
  if (goes_on ? asks : !asks && !c.parked && !leaves_the_rest()) return;
  crossbow::fail(
      "the order to be replayed is of another run: event {} is node {}'s, which has none", events_,
      event.node);
}

bool AsyncEngine::wants(const Mail::Header& header) {
  const std::lock_guard lock(mutex_);
  if (!replays() || error_) return true;
  const int overtaken = arrivals_->overtaken(header.from, header.sequence);
  return expected_event() == RankEvent{RankEvent::Kind::arrival, header.from, overtaken};
}

}  // namespace crossbow
