#include "train/team_config.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "comm/world.h"
#include "core/error.h"
#include "device/device.h"
#include "train/clock_config.h"
#include "train/nodes_config.h"

namespace crossbow {
namespace {

/// For that many learners in all.
void set_algorithm(TeamConfig& team, const TrainOptions& o, int learners) {
  if (o.sync == "none") return;
  const SyncOptions options = sync_options(o, learners);
  if (find_async(o.sync)) {
    auto async = make_async(o.sync, {options, o.gossip_probability, merge_of(o)});
    validate_nodes(o, *async);
    validate_network(o, *async);
    if (learners > 1 || async->traits().unlike) team.async = std::move(async);
  } else {
    auto sync = make_sync(o.sync, options);
    if (learners > 1 || sync_alone(o.sync)) team.sync = std::move(sync);
  }
}

}  // namespace

int64_t TeamConfig::exchanges_before(int64_t epoch, int64_t batch, int64_t epoch_batches) const {
  if (!sync) return 0;
  const auto steps = [k = learners()](int64_t batches) { return (batches + k - 1) / k; };
  const int64_t epoch_steps = steps(epoch_batches);
  return (epoch * epoch_steps + steps(batch)) /
         sync->period(/*after_first_drop=*/false, epoch_steps);
}

SyncOptions sync_options(const TrainOptions& o, int learners) {
  SyncOptions options;
  options.learners = learners;
  options.period = o.sync_period;
  options.alpha = o.alpha;
  options.central_momentum = o.central_momentum;
  options.averaging_eta = o.averaging_eta;
  options.momentum = o.momentum.value_or(0);
  options.nesterov = o.nesterov.value_or(false);
  return options;
}

TrainOptions settled_options(TrainOptions o, const TeamConfig& team) {
  SyncOptions options = sync_options(o, team.learners());
  if (team.sync) options = settled_options(o.sync, options);
  if (team.async) {
    options =
        settled_options(o.sync, AsyncOptions{options, o.gossip_probability, merge_of(o)}).sync;
  }
  o.sync_period = options.period;
  o.alpha = options.alpha;
  o.central_momentum = options.central_momentum;
  o.averaging_eta = options.averaging_eta;
  return o;
}

DeviceList device_list(std::string_view text) {
  if (text.find('+') != text.npos) {
    fail_usage(
        "`device` {}: a CPU and a GPU train together as workers: `sync` adaptive-hogbatch, and "
        "`worker` live:threads=N replica:device=cuda",
        text);
  }
  const std::string first(text.substr(0, text.find(','))), kind = first.substr(0, first.find(':'));
  if (kind == text || !is_device(kind)) return {std::string(text), 1};
  // Devices that are groups of cores divide all of them.
  const bool from_any = is_device(first) && device_kind(kind).cpus.empty();
  std::istringstream devices{std::string(text)};
  for (std::string device; std::getline(devices, device, ',');) {
    const std::string other = device.substr(0, device.find(':'));
    if (other == kind || !is_device(other)) continue;
    fail_usage("`device` {}: a run has devices of one kind; `sync` hogbatch trains on {} and {}",
               text, kind, other);
  }
  const std::string from = from_any ? first : kind + ":0";
  std::string counted = device_name(from, 0);
  for (int count = 1; counted.size() <= text.size(); ++count) {
    if (counted == text) return {from == kind + ":0" ? kind : from, count};
    counted += ',' + device_name(from, count);
  }
  fail_usage("`device` {}: count the devices: {}:0,{}:1 for two{}", text, kind, kind,
             kind == kGpus ? "; CUDA_VISIBLE_DEVICES=3,1 says which these are" : "");
}

bool is_alone(const TrainOptions& o) {
  return o.sync == "none" || (o.learners == 1 && device_list(o.device).count == 1 && !world());
}

bool looks_for_learners(const TrainOptions& o) {
  return !o.learners && !o.deterministic && o.sync != "none" && !find_async(o.sync) && !world();
}

std::vector<Arrangement> arrangements_of(const TrainOptions& o, int64_t most) {
  const DeviceList devices = device_list(o.device);
  const DeviceKind kind = device_kind(devices.kind);
  const int cores = std::max(1, kind.cores / devices.count);
  if (has_unlike_workers(o.sync)) {
    int nodes = 0;
    for (const WorkerConfig& worker : workers_of(o)) nodes += worker.nodes();
    return {{nodes, 1}};
  }
  std::optional<int> threads, learners;
  if (o.threads_per_learner) threads = static_cast<int>(*o.threads_per_learner);
  if (o.learners) learners = static_cast<int>(*o.learners);
  if (o.sync == "none") learners = 1;
  if (!learners && !looks_for_learners(o)) {
    learners = std::clamp<int64_t>(cores / threads.value_or(1), 1, std::max<int64_t>(1, most));
  }
  if (learners) return {{*learners, threads.value_or(std::max(1, cores / *learners))}};
  if (!kind.cpus.empty()) return arrangements(cores, threads);
  constexpr int kMostTried = 32;  // more than have been of use to any net
  return arrangements(kMostTried, 1);
}

TeamConfig team_of(const TrainOptions& options, const Arrangement& arrangement) {
  TeamConfig team;
  team.arrangement = arrangement;
  team.ranks = world_size();
  const DeviceList devices = device_list(options.device);
  const DeviceKind kind = device_kind(devices.kind);
  if (has_unlike_workers(options.sync)) {
    team.workers = workers_of(options);
    std::vector<int> threads;
    for (const WorkerConfig& worker : team.workers) {
      threads.insert(threads.end(), static_cast<size_t>(worker.nodes()), worker.threads_per_node());
    }
    team.threads = plan_unlike_threads(kind, std::move(threads));
  } else {
    team.threads = plan_threads(kind, devices.count, arrangement.learners, arrangement.threads);
  }
  validate_learners_of_clock(options, team.learners());
  set_algorithm(team, options, team.learners());
  return team;
}

std::vector<TeamConfig> teams_of(const TrainOptions& o) {
  // Options that leave no choice but one learner, who needs none of them, are a mistake.
  if (!o.learners) {
    TeamConfig several;
    set_algorithm(several, o, 2 * device_list(o.device).count * world_size());
  }
  std::vector<TeamConfig> teams;
  for (const Arrangement& arrangement : arrangements_of(o)) {
    try {
      teams.push_back(team_of(o, arrangement));
    } catch (const UsageError&) {
      if (teams.empty() && !o.resume) throw;
      break;
    }
  }
  return teams;
}

}  // namespace crossbow
