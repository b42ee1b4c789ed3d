// crossbow eval
#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <cmath>

#include "cli/command.h"
#include "core/error.h"
#include "core/machine.h"
#include "models/model.h"
#include "plan/tuner.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/evaluation.h"
#include "train/recipe.h"
#include "train/setup.h"
#include "train/train.h"

namespace crossbow::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  crossbow eval runs/lenet-digits-1
  crossbow eval runs/lenet-digits-1 --data mnist:DIR
  crossbow eval runs/lenet-digits-1/checkpoint.previous --json
)";

struct Flags {
  OptionFlags options;
  std::string run;
  bool json = false;
};

Checkpoint load(const std::string& run) {
  Checkpoint checkpoint =
      load_checkpoint(run, [](std::string_view text) { fmt::print(stderr, "note: {}\n", text); });
  if (checkpoint.options.model == kOwnModel) {
    fail("{} is of a net that a program of your own declares: evaluate it there", run);
  }
  return checkpoint;
}

void check_classes(const Checkpoint& checkpoint, const data::Dataset& dataset) {
  if (dataset.info.image == checkpoint.image && dataset.info.classes == checkpoint.classes) return;
  fail("the model takes images of shape {} in {} classes, but {} has {} in {}",
       checkpoint.image.str(), checkpoint.classes, dataset.info.name, dataset.info.image.str(),
       dataset.info.classes);
}

int run(const Flags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const Checkpoint checkpoint = load(flags.run);
  // Nothing of how it was trained: one learner's program, on all of this machine's cores.
  TrainOptions same;
  same.model = checkpoint.options.model;
  same.data = checkpoint.options.data;
  same.device = device_list(checkpoint.options.device).kind;
  same.batch = checkpoint.options.batch;
  same.precision = checkpoint.options.precision;
  same.deterministic = checkpoint.options.deterministic;
  same.sync = "none";
  const TrainOptions options =
      with_recipe(flags.options.apply(same), find_model(same.model).recipe);
  validate(options);
  if (const auto note = precision_note(options)) fmt::print(stderr, "note: {}\n", *note);
  const Arrangement arrangement = candidates(options).front();
  omp_set_num_threads(arrangement.threads);

  data::OpenOptions open;
  open.image_size = checkpoint.image[1];
  const auto dataset = data::open_dataset(*options.data, open);
  check_classes(checkpoint, *dataset);

  Tuner tuner;
  tuner.preset(checkpoint.plan);
  const ModelSpec spec{checkpoint.image, checkpoint.classes, options.batch, {}};
  CompiledModel model(build_model(options.model, spec),
                      compile_options(options, arrangement, &tuner));
  const int64_t rows = evaluation_rows(options.batch);
  Evaluator::compile(model, dataset->test->size(), rows);
  Workers workers(plan_threads(1, physical_cores(), arrangement.threads));
  std::vector<Buffer> arenas;
  for (int w = 0; w < workers.count(); ++w) arenas.emplace_back(model.arena_bytes());
  Replica replica(*model.parameters(), /*with_gradients=*/false);
  restore(checkpoint, *model.parameters(), replica);
  Evaluator evaluator(model, replica, workers, arenas, *dataset, rows);
  const Evaluation result = *evaluator.run([] { return false; }, [](int64_t) {});

  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (flags.json) {
    print_json({{"model", options.model},
                {"data", *options.data},
                {"samples", dataset->test->size()},
                {"test_accuracy", result.accuracy},
                {"test_loss", result.loss},
                {"seconds", seconds.count()}});
  } else {
    fmt::print("{} on {}: test accuracy {}, test loss {:.4f} over {} images\n", options.model,
               *options.data, percent(result.accuracy), result.loss,
               grouped(dataset->test->size()));
  }
  return 0;
}

}  // namespace

Run add_eval(CLI::App& root) {
  CLI::App& app =
      *root.add_subcommand("eval", "accuracy and loss of a trained model on test images");
  const auto flags = std::make_shared<Flags>();
  app.add_option("run", flags->run, "a run's folder, or a checkpoint file")->required();
  flags->options.add(app, {"data", "device", "batch", "threads-per-learner", "precision"});
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.footer(kExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
