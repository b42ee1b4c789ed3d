// crossbow train
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/reporter.h"
#include "cli/results.h"
#include "cli/train_summary.h"
#include "comm/world.h"
#include "core/error.h"
#include "models/model.h"
#include "train/interrupt.h"
#include "train/nodes_config.h"
#include "train/recipe.h"
#include "train/run_config.h"
#include "train/train.h"

namespace crossbow::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainExamples =
    R"(What shows no [default] comes from the model's recipe: see crossbow models NAME.

Examples:
  crossbow train                                   LeNet on the built-in digits
  crossbow train --model resnet-20 --data imagefolder:cifar10 --epochs 5
  crossbow train --data mnist:DIR --target-accuracy 0.99 --out runs/mnist
  crossbow train --epochs 50 --patience 5 --keep-best
  crossbow train --resume runs/mnist --epochs 20   go on with a run
  crossbow train --sync async-eamsgd --learners 4  learners that do not wait
  crossbow train --replay runs/lenet-digits-1      repeat such a run bit by bit
  mpirun -n 2 crossbow train --model resnet-20     two ranks, over MPI
  crossbow train --config runs/mnist/config.toml --lr 0.02 --out runs/mnist-2

)"
    "Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 save the run and exit with 130, 143, 129 and 138; so does "
    "a standard output that takes no more, with 1. A switch is taken back by --no-SWITCH.\n";

constexpr const char* kSimulateExamples =
    R"(Trains as crossbow train --clock virtual does, and tells how long so many
machines would take: steps, messages and failures come at virtual times, and
the same seed brings the same bits. A step takes 0.01 s, and a tenth of that
more or less, unless --step-times says otherwise. A message has the model's
weights. Learners that wait for each other wait for their steps and for a sum,
which takes two latencies and the time of two messages through a card. If one
of them fails, the others go on from the last sum.

Examples:
  crossbow simulate --nodes 32 --sync gossip-pull
  crossbow simulate --nodes 128 --sync ssgd --latency 50e-6 --bandwidth 1.25e9
  crossbow simulate --nodes 8 --sync async-easgd --straggler 0:4 --fail 1:20
  crossbow simulate --nodes 8 --step-times recorded:steps.txt --json
  crossbow simulate --nodes 8 --sync sma --fail 3:1.5,0:2

)"
    "Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 save the run, which --resume goes on with, and exit with "
    "130, 143, 129 and 138.\n";

struct TrainFlags {
  OptionFlags options;
  std::string resume;
  int spares = 0;
  int64_t min_ranks = 1;
  bool json = false, simulates = false;

  const char* command() const { return simulates ? "crossbow simulate" : "crossbow train"; }
};

/// Makes runs/MODEL-DATA-N, N the first that is free.
std::string new_run_folder(const TrainOptions& options) {
  const TrainOptions resolved = with_recipe(options, find_model(options.model).recipe);
  std::string name = resolved.model + '-' + resolved.data->substr(0, resolved.data->find(':'));
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '-';
  }
  std::error_code error;
  fs::create_directories("runs", error);
  for (int n = 1; !error; ++n) {
    const fs::path path = fs::path("runs") / fmt::format("{}-{}", name, n);
    if (fs::create_directory(path, error)) return path.string();
  }
  fail("cannot make a folder in ./runs ({}): choose another with --out", error.message());
}

/// Before a configuration file and flags change it.
TrainOptions simulation() {
  TrainOptions options;
  options.clock = "virtual";
  options.step_times = "lognormal:0.01:0.1";
  return options;
}

void expect_simulation(const TrainOptions& options) {
  if (options.clock != "virtual") {
    fail_usage("`clock` real: a simulation has the virtual one; use crossbow train");
  }
  if (!options.step_times) {
    fail_usage("`step-times`: a simulation needs to know how long a step is");
  }
  if (has_unlike_workers(options.sync)) return;  // which say how many nodes there are
  if (options.sync == "none" || options.learners.value_or(2) < 2) {
    fail_usage(
        "a simulation is of several nodes: say how many with --nodes, and how they agree "
        "with `sync`");
  }
  if (!options.learners) fail_usage("say how many nodes there are, for example --nodes 8");
}

TrainResult train_and_report(const TrainFlags& flags, std::FILE* out) {
  const InterruptGuard guard;
  Reporter observer(out);
  if (!flags.resume.empty()) {
    const auto change = [&](const TrainOptions& before) {
      TrainOptions options = flags.options.apply(before);
      options.min_ranks = flags.min_ranks;
      if (flags.simulates) expect_simulation(options);
      return options;
    };
    return resume(flags.resume, change, &observer);
  }
  TrainOptions options = flags.options.apply(flags.simulates ? simulation() : TrainOptions{});
  if (options.replay) options = flags.options.apply(options_to_replay(*options.replay));
  if (flags.simulates) expect_simulation(options);
  options.min_ranks = flags.min_ranks;
  if (world_rank() > 0) {
    options.out.reset();
    options.keep_best = false;
  }
  const bool own_folder = !options.out && world_rank() == 0;
  if (own_folder) {
    if (!options.replay) resolve(options, find_model(options.model).recipe);  // or say why not
    options.out = new_run_folder(options);
  }
  try {
    return train(options, &observer);
  } catch (...) {
    std::error_code error;
    if (own_folder) fs::remove(*options.out, error);  // only if nothing is in it
    throw;
  }
}

void expect_use_of_least(int64_t ranks) {
  if (ranks == 1) return;
  if (!world()) fail_usage("--min-ranks {}: this is one process, not several ranks", ranks);
  if (!world()->survives()) {
    fail_usage(
        "--min-ranks {}: by this MPI or its launcher a lost rank ends the others; scripts/cluster "
        "--survivors brings one by which they go on",
        ranks);
  }
  if (ranks > world_size()) fail_usage("--min-ranks {}: there are {} ranks", ranks, world_size());
}

/// What has ended the run: of any rank that still tells.
int signal_of_all() {
  try {
    return std::ranges::max(of_all_ranks(InterruptGuard::signal()));
  } catch (const RankLost&) {
    if (!world()->survives()) throw;
    return InterruptGuard::signal();
  }
}

int run(const TrainFlags& flags) {
  join_world(flags.spares);
  expect_use_of_least(flags.min_ranks);
  if (world() && flags.simulates) {
    fail_usage("a simulation is of one process: start it without mpirun");
  }
  std::FILE* const out = flags.json ? stderr : stdout;
  TrainResult result;
  try {
    result = train_and_report(flags, out);
  } catch (const Interrupted& e) {
    if (!InterruptGuard::requested()) throw;
    complain(flags.command(), e.what());
    const int code = exit_code_of(InterruptGuard::signal());
    if (world()) world()->abort(code);  // others know nothing of it yet
    return code;
  }
  const bool speaks = world_rank() == 0;
  if (speaks) {
    print_summary(out, result);
    if (flags.json) print_json(cli::to_json(result));
  }
  if (!result.interrupted) return 0;
  const int signal = signal_of_all();
  if (speaks) {
    const std::string resume =
        result.options.replay && result.ranks
            ? "what repeats several ranks begins anew"
            : fmt::format("go on with {} --resume {}", flags.command(), *result.options.out);
    if (signal == 0) {
      fail("standard output takes no more, so the run was saved and ended; {}", resume);
    }
    complain(flags.command(), "interrupted; " + resume);
  }
  return exit_code_of(signal);
}

void add_flags(CLI::App& app, TrainFlags& flags) {
  flags.options.add(app);
  flags.options.add_alias(app, "checkpoint-every", "save-every", "another name of --save-every");
  app.get_option("--checkpoint-every")->excludes("--save-every");
  flags.options.add_config(app);
  app.add_option("--resume", flags.resume, "go on with the run in this folder")->type_name("DIR");
  app.add_flag("--json", flags.json,
               "put one JSON object on standard output, all else on standard error");
}

}  // namespace

Run add_train(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("train", "train a model on a data set");
  const auto flags = std::make_shared<TrainFlags>();
  add_flags(app, *flags);
  app.add_option("--spares", flags->spares,
                 "the last N ranks wait, and take the places of lost ones")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""));
  app.add_option("--min-ranks", flags->min_ranks,
                 "where ranks are lost: go on with so many at least")
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""));
  app.footer(sync_names() + kTrainExamples);
  return [flags] { return run(*flags); };
}

Run add_simulate(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("simulate", "train on virtual machines, and time them");
  const auto flags = std::make_shared<TrainFlags>();
  flags->simulates = true;
  flags->options.add_alias(app, "nodes", "learners", "machines, each with one learner: --learners");
  add_flags(app, *flags);
  app.get_option("--nodes")->excludes("--learners");
  app.footer(sync_names() + kSimulateExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
