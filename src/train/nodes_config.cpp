#include "train/nodes_config.h"

#include <algorithm>

#include "comm/world.h"
#include "core/error.h"
#include "train/checkpoint.h"
#include "train/clock_config.h"
#include "train/config.h"
#include "train/team_config.h"
#include "train/turns.h"
#include "train/workers_config.h"

namespace crossbow {
namespace {

Checkpoint run_to_replay(const std::string& folder) {
  Checkpoint run = load_checkpoint_header(folder, [](std::string_view) {});
  if (run.position.engine.nodes.empty()) {
    fail_usage("`replay` {}: its learners took no turns; the same options and seed repeat it",
               folder);
  }
  if (has_unlike_workers(run.options.sync)) {
    fail_usage(
        "`replay` {}: a run of unlike workers has no order that can be repeated; `clock` virtual "
        "gives one",
        folder);
  }
  if (std::ranges::any_of(run.position.engine.nodes, &NodeState::failed)) {
    fail_usage("`replay` {}: a node has failed in that run, which has no order since", folder);
  }
  if (run.position.batch != 0 || run.position.epoch == 0) {
    fail_usage("`replay` {0}: the run stopped within an epoch; finish it by `resume` {0} first",
               folder);
  }
  return run;
}

RankTurns rank_turns_of(const std::string& folder) {
  const Checkpoint run = run_to_replay(folder);
  return read_rank_turns(folder, run.turns_bytes, static_cast<int>(run.position.ranks),
                         run.position.arrangement.learners);
}

TrainOptions options_of(const Checkpoint& run, const std::string& folder) {
  TrainOptions o = run.options;
  o.learners = run.position.arrangement.learners;
  o.threads_per_learner = run.position.arrangement.threads;
  o.replay = folder;
  o.out.reset();
  o.lease.reset();  // the order of turns leaves no choice
  return o;
}

}  // namespace

void validate_nodes(const TrainOptions& o, const AsyncAlgorithm& algorithm) {
  if (o.staleness && !algorithm.traits().server) {
    fail_usage(
        "`staleness` {}: `sync` {} has no server whose model could be stale; leave it out, or "
        "choose downpour, async-easgd or async-eamsgd",
        *o.staleness, o.sync);
  }
  if (o.staleness && *o.staleness < 0) {
    fail_usage("`staleness` {}: it must be at least 0", *o.staleness);
  }
  if (o.lease && !(*o.lease > 0)) fail_usage("`lease` {}: it must be above 0 seconds", *o.lease);
  if (o.lease && !find_device(device_list(o.device).kind).is_host()) {
    fail_usage("`lease` {}: on {} a step that has begun cannot be given up; leave it out", *o.lease,
               o.device);
  }
  if (o.lease && o.replay) fail_usage("`lease` {}: a replay has the turns of its run", *o.lease);
  if (o.lease && is_virtual(o)) {
    fail_usage("`lease` {}: it is of real seconds, and the clock is virtual; leave it out, or{}",
               *o.lease, o.clock ? " choose `clock` real" : " leave `deterministic` out");
  }
}

AsyncSettings node_settings(const TrainOptions& o, int nodes) {
  using Clock = AsyncSettings::Clock;
  AsyncSettings settings;
  settings.clock = is_virtual(o) ? Clock::virtual_time : Clock::real;
  settings.pace = pace_of(o);
  settings.staleness = o.staleness;
  settings.lease = o.lease;
  if (!o.replay) return settings;
  settings.clock = Clock::replayed;
  if (world()) {
    settings.replay = rank_turns_of(*o.replay).events[static_cast<size_t>(world_rank())];
    return settings;
  }
  settings.replay = read_turns(*o.replay, run_to_replay(*o.replay).turns_bytes);
  const bool known = std::all_of(settings.replay.begin(), settings.replay.end(),
                                 [&](int32_t node) { return node < nodes; });
  if (settings.replay.empty() || !known) {
    fail(
        "cannot repeat {0}: its file {1} is missing or damaged, or its nodes have changed live "
        "weights, which has no order; `clock` virtual gives hogwild one",
        *o.replay, kTurnsFile);
  }
  return settings;
}

std::vector<RankTurns::Segment> segments_to_repeat(const TrainOptions& o) {
  std::vector<RankTurns::Segment> segments = rank_turns_of(*o.replay).segments;
  std::ranges::reverse(segments);
  return segments;
}

int64_t ranks_to_replay(const std::string& folder) {
  return run_to_replay(folder).position.ranks;
}

TrainOptions options_to_replay(const std::string& folder) {
  return options_of(run_to_replay(folder), folder);
}

void expect_replay(const TrainOptions& o) {
  const TrainOptions before = options_to_replay(*o.replay);
  check_same_run(before, o, "repeat");
  for (const char* end : {"epochs", "target-accuracy", "target-loss", "target-on", "patience"}) {
    const OptionEntry& entry = *find_option(end);
    const std::string was = option_text(before, entry);
    if (option_text(o, entry) != was) fail_usage("`{}`: the run to repeat has {}", end, was);
  }
}

}  // namespace crossbow
