#include "train/nodes_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/team_config.h"
#include "train/turns.h"
#include "train/workers_config.h"

namespace crossbow {
namespace {

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

/// By learner: "0:4,2:1.5" is {4, 1, 1.5}.
std::vector<double> slowness_of(std::string_view text) {
  const std::string_view all = text;
  if (text.ends_with(',')) fail_usage("`straggler` {}: there is nothing after the last comma", all);
  std::vector<double> slowness;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t colon = std::min(item.size(), item.find(':'));
    int node = -1;
    double factor = 0;
    if (!read_number(item.substr(0, colon), node) ||
        !read_number(item.substr(std::min(item.size(), colon + 1)), factor)) {
      fail_usage("`straggler` {}: write NODE:FACTOR, for example 0:4", all);
    }
    if (node < 0 || node >= kMostLearners) {
      fail_usage("`straggler` {}: there is no node {}", all, node);
    }
    if (!(factor >= 1 && factor <= 1e6)) {
      fail_usage("`straggler` {}: a step can take 1 to 1000000 times as long", all);
    }
    slowness.resize(std::max(slowness.size(), static_cast<size_t>(node) + 1), 1.0);
    slowness[static_cast<size_t>(node)] = factor;
  }
  return slowness;
}

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

bool is_virtual(const TrainOptions& o) {
  return o.clock ? *o.clock == "virtual" : o.deterministic && find_async(o.sync);
}

Pace pace_of(const TrainOptions& o) {
  Pace pace;
  pace.slowness = slowness_of(o.straggler.value_or(""));
  constexpr double kCostlyRows = 8;  // about what a core's steps on the mlp of 8×512 say
  if (has_unlike_workers(o.sync)) pace.costly_rows = kCostlyRows;
  return pace;
}

void validate_clock(const TrainOptions& o) {
  const bool nodes = find_async(o.sync) && !is_alone(o);
  if (o.clock && *o.clock != "real" && *o.clock != "virtual") {
    fail_usage("`clock` {}: this version knows real and virtual", *o.clock);
  }
  if (nodes && o.deterministic && o.clock == "real") {
    fail_usage(
        "`deterministic`: by the real clock nodes take turns as they are ready; leave `clock` out");
  }
  if (!o.straggler) return;
  if (!nodes && !is_virtual(o)) {
    fail_usage(
        "`straggler` {}: learners that wait for each other are stretched by the virtual clock "
        "only; add `clock` virtual",
        *o.straggler);
  }
  if (looks_for_learners(o)) {
    fail_usage("`straggler` {}: say how many learners there are, with `learners`", *o.straggler);
  }
}

void validate_stragglers(const TrainOptions& o, int learners) {
  if (!o.straggler) return;
  const auto last = std::ssize(slowness_of(*o.straggler)) - 1;
  if (last < learners) return;
  fail_usage("`straggler` {}: there is no node {}, they are 0 to {}", *o.straggler, last,
             learners - 1);
}

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
  settings.replay = read_turns(*o.replay, run_to_replay(*o.replay).position.engine.exchanges);
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
