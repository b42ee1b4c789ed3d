#include "train/clock_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "comm/world.h"
#include "core/error.h"
#include "core/file.h"
#include "core/number.h"
#include "sync/async.h"
#include "train/team_config.h"
#include "train/workers_config.h"

namespace crossbow {
namespace {

constexpr double kLongest = 1e6;  // seconds, of a step, a message or a factor

struct Entry {
  int node;
  double value;
};

/// "0:4,2:1.5"; `example` is of another such text.
std::vector<Entry> entries_of(std::string_view option, std::string_view text,
                              std::string_view example) {
  const std::string_view all = text;
  if (text.ends_with(',')) {
    fail_usage("`{}` {}: there is nothing after the last comma", option, all);
  }
  std::vector<Entry> entries;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t colon = std::min(item.size(), item.find(':'));
    const auto node = number_of<int>(item.substr(0, colon));
    const auto value = number_of<double>(item.substr(std::min(item.size(), colon + 1)));
    if (!node || !value) fail_usage("`{}` {}: write {}", option, all, example);
    if (*node < 0 || *node >= kMostLearners) {
      fail_usage("`{}` {}: there is no node {}", option, all, *node);
    }
    if (std::ranges::find(entries, *node, &Entry::node) != entries.end()) {
      fail_usage("`{}` {}: node {} stands there twice", option, all, *node);
    }
    entries.push_back({*node, *value});
  }
  return entries;
}

/// By node, `beyond` where there is no entry.
std::vector<double> by_node(const std::vector<Entry>& entries, double beyond) {
  std::vector<double> values;
  for (const auto& [node, value] : entries) {
    values.resize(std::max(values.size(), static_cast<size_t>(node) + 1), beyond);
    values[static_cast<size_t>(node)] = value;
  }
  return values;
}

std::vector<double> slowness_of(std::string_view text) {
  const auto entries = entries_of("straggler", text, "NODE:FACTOR, for example 0:4");
  for (const Entry& entry : entries) {
    if (entry.value >= 1 && entry.value <= kLongest) continue;
    fail_usage("`straggler` {}: a step can take 1 to 1000000 times as long", text);
  }
  return by_node(entries, 1);
}

std::vector<double> failures_of(std::string_view text) {
  const auto entries = entries_of("fail", text, "NODE:SECONDS, for example 0:2.5");
  for (const Entry& entry : entries) {
    if (entry.value >= 0) continue;
    fail_usage("`fail` {}: seconds are numbers from 0 on", text);
  }
  return by_node(entries, std::numeric_limits<double>::infinity());
}

constexpr std::string_view kRecorded = "recorded:";

/// Of step times that are recorded.
std::string file_of(const std::string& step_times) {
  std::string file = step_times.substr(kRecorded.size());
  if (file.empty()) fail_usage("`step-times` recorded: names no file");
  return file;
}

std::string recorded_text(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 26;
  try {
    return read_text_file(path, kMostBytes);
  } catch (const Error& e) {
    fail_usage("`step-times`: {}", e.what());
  }
}

/// Seconds, one number a line.
std::vector<double> recorded_times(const std::string& path) {
  std::istringstream file(recorded_text(path));
  std::vector<double> times;
  std::string word;
  while (file >> word) {
    const double time = number_of<double>(word).value_or(0);
    if (!(time > 0 && time <= kLongest)) {
      fail_usage(
          "`step-times` recorded:{}: its number {} is '{}'; write the seconds of one step "
          "on each line",
          path, times.size() + 1, word);
    }
    times.push_back(time);
  }
  if (times.empty()) fail_usage("`step-times` recorded:{}: there is no time in it", path);
  return times;
}

void set_step_times(Pace& pace, const std::string& text) {
  const auto refuse = [&] {
    fail_usage(
        "`step-times` {}: write constant:SECONDS, lognormal:SECONDS:SIGMA, "
        "uniform:SECONDS:SHARE or recorded:FILE, for example uniform:0.01:0.3",
        text);
  };
  const size_t colon = text.find(':');
  if (colon == text.npos) refuse();
  const std::string_view kind = std::string_view(text).substr(0, colon);
  const std::string rest = text.substr(colon + 1);
  if (text.starts_with(kRecorded)) {
    pace.times = Pace::Times::recorded;
    pace.recorded = recorded_times(file_of(text));
    pace.step_seconds = std::accumulate(pace.recorded.begin(), pace.recorded.end(), 0.0) /
                        static_cast<double>(pace.recorded.size());
    for (double& time : pace.recorded) time /= pace.step_seconds;
    return;
  }
  const size_t second = std::min(rest.size(), rest.find(':'));
  const std::string_view spread = std::string_view(rest).substr(std::min(rest.size(), second + 1));
  const auto number = [&](std::string_view part) {
    const auto value = number_of<double>(part);
    if (!value) refuse();
    return *value;
  };
  pace.step_seconds = number(std::string_view(rest).substr(0, second));
  if (kind == "constant") {
    if (second < rest.size()) refuse();
    pace.spread = 0;
  } else {
    pace.spread = number(spread);
    if (kind == "uniform") {
      pace.times = Pace::Times::uniform;
    } else if (kind != "lognormal") {
      refuse();
    }
  }
  if (!(pace.step_seconds > 0 && pace.step_seconds <= kLongest)) {
    fail_usage("`step-times` {}: a step takes more than 0 and at most 1000000 seconds", text);
  }
  const double most = pace.times == Pace::Times::uniform ? 0.99 : 3;
  if (!(pace.spread >= 0 && pace.spread <= most)) {
    fail_usage("`step-times` {}: {} is 0 to {}", text, kind == "uniform" ? "SHARE" : "SIGMA", most);
  }
}

/// The options that simulate machines, and whether they are set.
std::array<std::pair<std::string_view, bool>, 4> of_simulation(const TrainOptions& o) {
  return {{{"step-times", o.step_times.has_value()},
           {"latency", o.latency.has_value()},
           {"bandwidth", o.bandwidth.has_value()},
           {"fail", o.fail.has_value()}}};
}

/// Learners that wait for each other become fewer as they fail, so their number now does not tell.
bool knows_its_nodes(const TrainOptions& o) {
  return find_async(o.sync) || is_alone(o) || o.learners;
}

void validate_simulation(const TrainOptions& o) {
  for (const auto& [name, set] : of_simulation(o)) {
    if (!set) continue;
    if (!is_virtual(o)) {
      fail_usage("`{}` is of the virtual clock; add `clock` virtual, or use crossbow simulate",
                 name);
    }
    if (!o.step_times) {
      fail_usage("`{}` is in seconds: say with `step-times` how many a step takes", name);
    }
    if (looks_for_learners(o) || (name == "fail" && !knows_its_nodes(o))) {
      fail_usage("`{}`: say how many learners there are, with `learners`", name);
    }
  }
  const bool waiting = !find_async(o.sync);  // other nodes are of one device anyway
  if (o.fail && waiting && device_list(o.device).count > 1) {
    fail_usage(
        "`fail`: learners of several devices cannot fail in this version; choose one device");
  }
  if (o.latency && !(*o.latency >= 0 && *o.latency <= kLongest)) {
    fail_usage("`latency` {}: it is 0 to 1000000 seconds", *o.latency);
  }
  if (o.bandwidth && !(*o.bandwidth >= 1)) {
    fail_usage("`bandwidth` {}: it is at least 1 byte a second", *o.bandwidth);
  }
  pace_of(o);
}

}  // namespace

void make_step_times_absolute(TrainOptions& o) {
  if (!o.step_times || !o.step_times->starts_with(kRecorded)) return;
  const std::filesystem::path file = file_of(*o.step_times);
  o.step_times =
      std::string(kRecorded) + std::filesystem::absolute(file).lexically_normal().string();
}

bool is_virtual(const TrainOptions& o) {
  return o.clock ? *o.clock == "virtual" : o.deterministic && find_async(o.sync);
}

Pace pace_of(const TrainOptions& o) {
  Pace pace;
  pace.slowness = slowness_of(o.straggler.value_or(""));
  constexpr double kCostlyRows = 8;  // about what a core's steps on the mlp of 8×512 say
  if (has_unlike_workers(o.sync)) pace.costly_rows = kCostlyRows;
  if (!o.step_times) return pace;
  set_step_times(pace, *o.step_times);
  pace.fails = failures_of(o.fail.value_or(""));
  for (double& second : pace.fails) second /= pace.step_seconds;
  if (o.latency || o.bandwidth) {
    pace.network = {o.latency.value_or(0) / pace.step_seconds,
                    o.bandwidth.value_or(0) * pace.step_seconds};
  }
  return pace;
}

double failure_of(const TrainOptions& o, int node) {
  return failures_of(o.fail.value_or("")).at(static_cast<size_t>(node));
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
  validate_simulation(o);
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

void validate_learners_of_clock(const TrainOptions& o, int learners) {
  if (!o.straggler && !o.fail) return;
  if (o.fail && !find_async(o.sync)) {
    learners = static_cast<int>(o.learners.value_or(kMostLearners));
  }
  const Pace pace = pace_of(o);
  const auto refuse = [&](std::string_view option, const std::optional<std::string>& text,
                          const std::vector<double>& entries) {
    if (std::ssize(entries) <= learners) return;
    fail_usage("`{}` {}: there is no node {}, they are 0 to {}", option, *text, entries.size() - 1,
               learners - 1);
  };
  refuse("straggler", o.straggler, pace.slowness);
  refuse("fail", o.fail, pace.fails);
}

void validate_network(const TrainOptions& o, const AsyncAlgorithm& algorithm) {
  const AsyncAlgorithm::Traits traits = algorithm.traits();
  if (o.fail && traits.unlike) {
    fail_usage("`fail`: `sync` {} has workers of unlike speed, which it cannot simulate to fail",
               o.sync);
  }
  const bool together = traits.live || traits.unlike || traits.reads_inboxes;
  if (!together) return;
  if (world()) {  // a spare may join one rank
    fail_usage(
        "`sync` {}: its nodes share memory, so they are of one process; for ranks choose for "
        "example gossip-push",
        o.sync);
  }
  for (const auto& [name, set] : of_simulation(o)) {
    if (!set || (name != "latency" && name != "bandwidth")) continue;
    fail_usage(
        "`{}`: the nodes of `sync` {} share memory, so there are no messages between them; leave "
        "it out, or choose for example gossip-pull",
        name, o.sync);
  }
}

}  // namespace crossbow
