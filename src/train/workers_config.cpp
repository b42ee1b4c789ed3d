#include "train/workers_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/nearest.h"
#include "core/number.h"
#include "core/text.h"
#include "device/device.h"
#include "train/team_config.h"

namespace crossbow {
namespace {

constexpr const char* kForm = "live:threads=1,batch=1-16 or replica:threads=1,batch=16-256";
constexpr int64_t kLargestBatch = 1 << 20;

/// Cuts the text before the first `end` off, and `end` with it.
std::string_view cut(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

template <typename Number>
Number number_in(std::string_view worker, std::string_view key, std::string_view text, Number least,
                 Number most) {
  const auto value = number_of<Number>(text);
  if (!value) {
    fail_usage("`worker` {}: '{}' is not a number for {}; write {}", worker, text, key, kForm);
  }
  if (!(*value >= least && *value <= most)) {
    fail_usage("`worker` {}: {} must be in {} to {}", worker, key, least, most);
  }
  return *value;
}

void set_key(WorkerConfig& worker, std::string_view all, std::string_view key,
             std::string_view value) {
  if (key == "threads") {
    worker.threads = number_in<int>(all, key, value, 1, kMostLearners);
  } else if (key == "batch") {
    std::string_view rest = value;
    worker.least = worker.most = number_in<int64_t>(all, key, cut(rest, '-'), 1, kLargestBatch);
    if (value.find('-') != value.npos) {
      worker.most = number_in<int64_t>(all, key, rest, worker.least, kLargestBatch);
    }
  } else if (key == "beta" && !worker.replica) {
    worker.beta = number_in<double>(all, key, value, 0.001, 1);
  } else if (key == "device") {
    if (value.empty()) fail_usage("`worker` {}: say which device; write device={}", all, kGpus);
    worker.device = value;
  } else {
    const std::vector<std::string_view> known =
        worker.replica ? std::vector<std::string_view>{"threads", "batch", "device"}
                       : std::vector<std::string_view>{"threads", "batch", "beta", "device"};
    fail_usage("`worker` {}: a {} worker has no '{}'; it has {}{}", all, worker.kind(), key,
               fmt::join(known, ", "), did_you_mean(key, known));
  }
}

WorkerConfig worker_of(std::string_view text) {
  const std::string_view all = text;
  WorkerConfig worker;
  const std::string_view kind = cut(text, ':');
  if (kind != "live" && kind != "replica") {
    fail_usage("`worker` {}: a worker is live or replica; write {}", all, kForm);
  }
  worker.replica = kind == "replica";
  while (!text.empty()) {
    std::string_view item = cut(text, ',');
    const std::string_view key = cut(item, '=');
    set_key(worker, all, key, item);
  }
  return worker;
}

/// A worker on the run's own device is not away. `home`: the run's.
void settle_device(WorkerConfig& worker, const DeviceList& home) {
  const std::string& name = worker.device;
  if (!worker.is_away()) return;
  if (device_name(name, 0) == device_name(home.kind, 0)) return worker.device.clear();
  if (!is_device(name)) {
    const std::vector<std::string_view> known{"cpu", kGpus};
    fail_usage("`worker` {}: there is no device '{}'; choose cpu or {}{}", worker.kind(), name,
               kGpus, did_you_mean(name, known));
  }
  const DeviceKind kind = device_kind(name);
  if (kind.devices == 0) {
    fail_usage("`worker` {}: device {}: there is no GPU: {}", worker.kind(), name, kind.why_none);
  }
  if (!kind.cpus.empty()) {
    fail_usage("`worker` {}: a worker is on {}, or on a GPU, not on {}", worker.kind(), home.kind,
               name);
  }
  if (!worker.replica) {
    fail_usage("`worker` live: it changes the model where that lies, on {}; a replica can be on {}",
               home.kind, name);
  }
  if (device_kind(home.kind).cpus.empty()) {
    fail_usage("`worker` {}: a worker on {} needs the model on the CPU; write `device` cpu",
               worker.kind(), name);
  }
  if (worker.threads != 1) {
    fail_usage("`worker` {}: on {} it has one thread, which gives the work", worker.kind(), name);
  }
}

/// Sizes of steps are least·α^i, and multiples of the smallest of all.
void expect_sizes(const WorkerConfig& worker, int64_t smallest, int64_t factor) {
  if (worker.least % smallest != 0) {
    fail_usage(
        "`worker` {}: its smallest batch, {}, must be a multiple of the smallest of all, {}; {} is "
        "one",
        worker.kind(), worker.least, smallest, (worker.least / smallest + 1) * smallest);
  }
  const int64_t below = Coordinator::sizes(worker.least, worker.most, factor).back();
  if (below != worker.most) {
    fail_usage(
        "`worker` {}: its batches from {} grow by a factor of {}, so that they reach {} or {}, not "
        "{}",
        worker.kind(), worker.least, factor, below, below * factor, worker.most);
  }
}

template <typename F>
bool any_worker(const TrainOptions& o, const F& is) {
  if (!has_unlike_workers(o.sync) || !o.worker) return false;
  return std::ranges::any_of(written_workers(o), is);
}

/// A GPU may be too old for this build's kernels.
bool has_usable_gpu() {
  if (is_missing(kGpus)) return false;
  try {
    find_device(kGpus);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// All cores but one, and a GPU if there is one, or else the last core. Sizes of a live worker, and
/// of a replica on a GPU, are the paper's. Steps of 128 rows have nine tenths of a core's best
/// speed, but of 16 nearly as much, and more of them are made: so where sizes adapt on cores alone
/// they are smaller (docs/hogbatch.md). A replica's largest size is 16 times its smallest, as the
/// paper's.
std::string default_workers(const TrainOptions& o) {
  const int cores = device_kind(device_list(o.device).kind).cores;
  const auto algorithm = algorithm_of(o);
  const int64_t factor = algorithm->step_factor();
  const auto worker = [&](const char* kind, int threads, int64_t least, int64_t most) {
    most = Coordinator::sizes(least, most, factor).back();
    return fmt::format("{}:threads={},batch={}-{}", kind, threads, least, most);
  };
  const int first = std::max(1, cores - 1);
  const bool gpu = o.device == "cpu" && has_usable_gpu();
  const std::string on_gpu = fmt::format(",device={}", kGpus);
  if (algorithm->traits().merges) {
    const std::string replica = worker("replica", first, 16, 256);
    if (gpu) return replica + ' ' + worker("replica", 1, 16, 256) + on_gpu;
    return replica + (cores > 1 ? ' ' + worker("replica", 1, 16, 256) : "");
  }
  const bool adapts = find_async(o.sync)->uses.alpha;
  if (gpu) return worker("live", first, 1, 64) + ' ' + worker("replica", 1, 512, 8192) + on_gpu;
  if (adapts) return worker("live", first, 1, 16) + ' ' + worker("replica", 1, 16, 256);
  return worker("live", first, 1, 64) + ' ' + worker("replica", 1, 128, 2048);
}

}  // namespace

std::string_view merge_of(const TrainOptions& o) {
  return o.merge ? std::string_view(*o.merge) : std::string_view();
}

std::unique_ptr<const AsyncAlgorithm> algorithm_of(const TrainOptions& o) {
  return make_async(o.sync, {sync_options(o, 1), o.gossip_probability, merge_of(o)});
}

Device* away_device(const WorkerConfig& worker) {
  return worker.is_away() ? &find_device(worker.device) : nullptr;
}

std::string text_of(const std::vector<WorkerConfig>& workers) {
  std::string text;
  for (const WorkerConfig& w : workers) {
    text += fmt::format(
        "{}a {} {}, batches of {}", text.empty() ? "" : "; ", w.replica ? "replica" : "live worker",
        w.is_away() ? "on " + w.device : "of " + count(w.threads, "thread"), w.least);
    if (w.most > w.least) text += fmt::format(" to {}", w.most);
  }
  return text;
}

std::vector<int64_t> step_rows(const WorkerConfig& worker, const AsyncAlgorithm& algorithm) {
  return Coordinator::sizes(worker.least, worker.most, algorithm.step_factor());
}

bool has_unlike_workers(const std::string& sync) {
  const AsyncEntry* const entry = find_async(sync);
  return entry && entry->uses.workers;
}

std::vector<WorkerConfig> written_workers(const TrainOptions& o) {
  std::vector<WorkerConfig> workers;
  for (std::string_view text = *o.worker; !text.empty();) {
    const std::string_view one = cut(text, ' ');
    if (!one.empty()) workers.push_back(worker_of(one));
  }
  if (workers.empty()) fail_usage("`worker`: there is none; write {}", kForm);
  int nodes = 0;
  int64_t smallest = workers.front().least;
  for (const WorkerConfig& worker : workers) {
    nodes += worker.nodes();
    smallest = std::min(smallest, worker.least);
  }
  if (nodes > kMostLearners) {
    fail_usage("`worker`: they have {} threads; at most {} can train", nodes, kMostLearners);
  }
  const auto algorithm = algorithm_of(o);
  for (const WorkerConfig& worker : workers) {
    if (!worker.replica && algorithm->traits().merges) {
      fail_usage("`worker` live: `sync` {} merges replicas; write replica:threads=1,batch=16",
                 o.sync);
    }
    expect_sizes(worker, smallest, algorithm->step_factor());
  }
  return workers;
}

std::vector<WorkerConfig> workers_of(const TrainOptions& o) {
  std::vector<WorkerConfig> workers = written_workers(o);
  const DeviceList home = device_list(o.device);
  for (WorkerConfig& worker : workers) settle_device(worker, home);
  if (workers.front().is_away()) {
    fail_usage("`worker` {}: one on {} must come before one on {}, or write `device` {}",
               workers.front().kind(), home.kind, workers.front().device, workers.front().device);
  }
  const int most = device_kind(home.kind).threads;
  for (const WorkerConfig& worker : workers) {
    if (worker.threads_per_node() > most) {
      fail_usage("`worker` {}: on {} it can have {} threads", worker.kind(), o.device, most);
    }
  }
  return workers;
}

bool have_same_workers(const TrainOptions& a, const TrainOptions& b) {
  if (a.sync != b.sync || !has_unlike_workers(a.sync) || !a.worker || !b.worker) return false;
  const auto anywhere = [](const TrainOptions& o) {
    std::vector<WorkerConfig> workers = written_workers(o);
    for (WorkerConfig& worker : workers) worker.device.clear();
    return workers;
  };
  return anywhere(a) == anywhere(b);
}

bool has_worker_on_gpu(const TrainOptions& o) {
  return any_worker(o, [](const WorkerConfig& worker) { return is_gpu(worker.device); });
}

bool has_devices_of(const TrainOptions& o) {
  const auto misses = [](const WorkerConfig& worker) {
    return worker.is_away() && is_missing(worker.device);
  };
  return !is_missing(device_list(o.device).kind) && !any_worker(o, misses);
}

void fill_workers(TrainOptions& o) {
  if (!has_unlike_workers(o.sync)) return;
  if (!o.worker) o.worker = default_workers(o);
}

int64_t batch_of(const TrainOptions& o) {
  if (!has_unlike_workers(o.sync)) return o.batch;
  int64_t smallest = kLargestBatch;
  for (const WorkerConfig& worker : written_workers(o)) smallest = std::min(smallest, worker.least);
  return smallest;
}

void validate_workers(const TrainOptions& o) {
  if (!has_unlike_workers(o.sync)) {
    if (!o.worker) return;
    fail_usage(
        "`worker`: `sync` {} has learners that are alike; choose hogbatch, "
        "adaptive-hogbatch or adaptive-sgd",
        o.sync);
  }
  const auto refuse = [&](bool set, std::string_view name) {
    if (set) fail_usage("`{}`: the workers of `sync` {} say it; see `worker`", name, o.sync);
  };
  refuse(o.learners.has_value(), "learners");
  refuse(o.threads_per_learner.has_value(), "threads-per-learner");
  const auto refuse_use = [&](bool set, std::string_view what) {
    if (set) fail_usage("{}: `sync` {} has no use for it; leave it out", what, o.sync);
  };
  refuse_use(o.splits > 1, "`splits`");
  refuse_use(o.lr_scaling == "adascale", "`lr-scaling` adascale");
}

NodeWorker node_worker(const WorkerConfig& worker, const AsyncAlgorithm& algorithm, int64_t batch) {
  const bool begins_large = worker.replica && !algorithm.traits().merges;
  NodeWorker node;
  node.replica = worker.replica;
  node.rows = step_rows(worker, algorithm);
  node.terms = {.nodes = worker.nodes(),
                .least = worker.least / batch,
                .most = worker.most / batch,
                .first = (begins_large ? worker.most : worker.least) / batch,
                .updates_per_step = worker.beta};
  return node;
}

int64_t round_of(const std::vector<NodeWorker>& workers, const AsyncAlgorithm& algorithm) {
  if (!algorithm.traits().merges) return 0;
  int64_t step = 0;  // of all nodes
  for (const NodeWorker& worker : workers) step += worker.terms.nodes * worker.terms.most;
  return step * algorithm.round_steps();
}

double rate_exponent(const TrainOptions& o) {
  if (o.lr_scaling == "none") return 0;
  return o.lr_scaling == "sqrt" ? 0.5 : 1;
}

std::vector<WorkerReport> worker_reports(const std::vector<WorkerConfig>& workers,
                                         const EnginePlace& place, int64_t batch,
                                         const std::string& device) {
  std::vector<WorkerReport> reports;
  auto node = place.nodes.begin();
  for (size_t w = 0; w < workers.size(); ++w) {
    const WorkerState& state = place.workers[w];
    WorkerReport r;
    r.kind = workers[w].kind();
    r.device = workers[w].is_away() ? workers[w].device : device;
    r.nodes = workers[w].nodes();
    r.batch = state.size * batch;
    r.batch_min = state.least * batch;
    r.batch_max = state.most * batch;
    r.repeated_rows = state.repeated * batch;
    double busy = 0, all = 0;
    for (int n = 0; n < r.nodes; ++n, ++node) {
      r.updates += node->report.updates;
      r.rows += node->report.rows;
      r.failed_nodes += node->failed ? 1 : 0;
      busy += node->report.busy;
      all += node->report.busy + node->report.waiting;
    }
    if (all > 0) r.busy_fraction = busy / all;
    reports.push_back(r);
  }
  return reports;
}

}  // namespace crossbow
