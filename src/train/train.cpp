#include "train/train.h"

#include <filesystem>
#include <utility>

#include "comm/thread_world.h"
#include "comm/world.h"
#include "core/error.h"
#include "core/text.h"
#include "device/device.h"
#include "train/clock_config.h"
#include "train/config.h"
#include "train/nodes_config.h"
#include "train/recipe.h"
#include "train/run_config.h"
#include "train/survivors.h"
#include "train/trainer.h"

namespace crossbow {
namespace {

/// Who goes on with the run may do so from elsewhere.
void make_paths_absolute(TrainOptions& options) {
  for (const auto& [name, path] :
       {std::pair{"replay", &options.replay}, std::pair{"init", &options.init}}) {
    if (!*path) continue;
    if ((*path)->empty()) fail_usage("`{}`: it is empty; leave it out", name);
    *path = std::filesystem::absolute(**path).lexically_normal().string();
  }
  make_step_times_absolute(options);
}

/// Null unless this process is to repeat a run of several ranks.
std::unique_ptr<ThreadWorlds> worlds_to_replay(const TrainOptions& options) {
  if (!options.replay || world()) return nullptr;
  const int64_t ranks = ranks_to_replay(*options.replay);
  return ranks > 1 ? std::make_unique<ThreadWorlds>(static_cast<int>(ranks)) : nullptr;
}

TrainResult begin(const GraphFunction& graph, TrainOptions options, const Recipe& recipe,
                  Throughput& throughput, Observer& observer) {
  make_paths_absolute(options);
  const auto worlds = worlds_to_replay(options);
  {  // before there is a folder
    std::optional<WorldOfThread> first;
    if (worlds) first.emplace(worlds->rank(0));
    const RunConfig config = resolve(options, recipe);
    if (options.replay) expect_replay(config.options);
  }
  const auto train = [&](RunFolder* folder) {
    TrainResult result;
    const auto train_other = [&] {
      TrainOptions own = options;
      own.out.reset();
      Throughput of_rank;
      Observer silent;
      train_while_ranks_last(graph, own, recipe, nullptr, {}, of_rank, silent);
    };
    const auto train_first = [&] {
      result = train_while_ranks_last(graph, options, recipe, folder, {}, throughput, observer);
    };
    if (worlds) {
      worlds->run([&](const World& rank) { rank.rank() == 0 ? train_first() : train_other(); });
    } else {
      train_first();
    }
    return result;
  };
  if (!options.out) return train(nullptr);
  RunFolder folder = RunFolder::begin(*options.out);
  return train(&folder);
}

/// The run's configuration names its folder.
void expect_text(const std::string& folder) {
  try {
    TrainOptions options;
    set_option(options, *find_option("out"), folder);
  } catch (const UsageError&) {
    fail_usage("`resume` {}: the folder's name is not UTF-8 text; rename it", folder);
  }
}

/// A run goes on with devices of another kind, one for one.
void expect_as_many_devices(const TrainOptions& before, const TrainOptions& now) {
  const int had = device_list(before.device).count, has = device_list(now.device).count;
  if (had == has) return;
  fail_usage("`device` {}: the run to resume has {}, {}; choose as many", now.device,
             count(had, "device"), before.device);
}

/// A run to go on with. Nobody else changes it from before it is looked at until this goes.
class Interrupted {
 public:
  Interrupted(const std::string& folder, Observer& observer) : path_(folder), observer_(observer) {
    const auto warn = [&](std::string_view text) { observer.note(text); };
    if (world_rank() == 0) {
      folder_.reset(new RunFolder(RunFolder::go_on(folder)));  // which cannot be moved
      from_ = folder_->load(warn);
    } else {
      from_ = load_checkpoint(folder, warn);
    }
    if (from_->options.replay && from_->position.ranks > 1) {
      fail_usage(
          "`resume` {}: a run that repeats several ranks cannot be gone on with; begin it anew",
          folder);
    }
    try {
      TrainOptions options = from_->options;
      options.resume = folder;
      // What has no such devices here can go on with others only.
      if (has_devices_of(options)) resolve(options, Recipe{});
    } catch (const UsageError& e) {
      fail("cannot go on with {}: {}", folder, e.what());
    }
  }

  const TrainOptions& options() const { return from_->options; }

  TrainResult go_on(const GraphFunction& graph, TrainOptions options, const Recipe& recipe,
                    Throughput& throughput) {
    const std::string folder = path_.string();
    if (options.out.value_or(folder) != folder) {
      fail_usage("`out` {}: a resumed run stays in its folder {}", *options.out, folder);
    }
    options.out = options.resume = folder;
    make_paths_absolute(options);
    expect_text(folder);
    // What another number of ranks has a use for is filled in for both.
    TrainOptions before = from_->options;
    before.resume = folder;
    make_paths_absolute(before);  // an older version may have written others
    expect_as_many_devices(before, options);
    if (before.device != options.device) {
      observer_.note(fmt::format("the run began on {}, whose sums are rounded otherwise than on {}",
                                 before.device, options.device));
      before.device = options.device;
      before.precision = options.precision;  // not all devices have each
    }
    if (before.worker != options.worker && have_same_workers(before, options)) {
      observer_.note("workers compute elsewhere than the run began, and round sums otherwise");
      before.worker = options.worker;
    }
    check_same_run(with_recipe(before, recipe), with_recipe(options, recipe), "resume");
    return train_while_ranks_last(graph, options, recipe, folder_.get(), *std::exchange(from_, {}),
                                  throughput, observer_);
  }

 private:
  const std::filesystem::path path_;
  std::unique_ptr<RunFolder> folder_;  // of rank 0
  std::optional<Checkpoint> from_;
  Observer& observer_;
};

GraphFunction graph_of(const TrainOptions& options) {
  return [model = options.model](const ModelSpec& spec) { return build_model(model, spec); };
}

}  // namespace

TrainResult train_graph(const GraphFunction& graph, const TrainOptions& options,
                        const Recipe& recipe, Throughput& throughput, Observer& observer) {
  if (!options.resume) return begin(graph, options, recipe, throughput, observer);
  return Interrupted(*options.resume, observer).go_on(graph, options, recipe, throughput);
}

TrainResult train(const TrainOptions& options, Observer* observer) {
  Observer silent;
  Throughput throughput;
  return train_graph(graph_of(options), options, find_model(options.model).recipe, throughput,
                     observer ? *observer : silent);
}

TrainResult train(const ModelFunction& logits, const TrainOptions& options, Observer* observer) {
  Observer silent;
  Throughput throughput;
  TrainOptions own = options;
  own.model = kOwnModel;
  const auto graph = [&](const ModelSpec& spec) { return classifier(own.model, logits, spec); };
  return train_graph(graph, own, Recipe{}, throughput, observer ? *observer : silent);
}

TrainResult resume(const std::string& folder, const OptionsChange& change, Observer* observer) {
  Observer silent;
  Throughput throughput;
  Interrupted run(folder, observer ? *observer : silent);
  TrainOptions before = run.options();
  before.out = folder;  // which may have been moved
  const TrainOptions options = change(before);
  return run.go_on(graph_of(options), options, find_model(options.model).recipe, throughput);
}

}  // namespace crossbow
