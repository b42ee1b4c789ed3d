#include "train/train.h"

#include "core/error.h"
#include "train/config.h"
#include "train/recipe.h"
#include "train/setup.h"
#include "train/trainer.h"

namespace crossbow {
namespace {

/// Refuses what cannot be run, and says what will be done otherwise than asked.
void check(const TrainOptions& options, Observer& observer) {
  validate(options);
  if (const auto note = precision_note(options)) observer.note(*note);
}

TrainResult begin(const GraphFunction& graph, const TrainOptions& options, Throughput& throughput,
                  Observer& observer) {
  check(options, observer);
  if (!options.out) return Trainer(graph, options, nullptr, nullptr, throughput, observer).run();
  RunFolder folder = RunFolder::begin(*options.out);
  return Trainer(graph, options, &folder, nullptr, throughput, observer).run();
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

/// A run to go on with. Nobody else changes it from before it is looked at until this goes.
class Interrupted {
 public:
  Interrupted(const std::string& folder, Observer& observer)
      : folder_(RunFolder::go_on(folder)),
        from_(folder_.load([&](std::string_view text) { observer.note(text); })),
        observer_(observer) {
    try {
      validate(from_->options);
    } catch (const UsageError& e) {
      fail("cannot go on with {}: {}", folder, e.what());
    }
  }

  const TrainOptions& options() const { return from_->options; }

  /// `options` are resolved.
  TrainResult go_on(const GraphFunction& graph, TrainOptions options, Throughput& throughput) {
    const std::string folder = folder_.path().string();
    if (options.out.value_or(folder) != folder) {
      fail_usage("`out` {}: a resumed run stays in its folder {}", *options.out, folder);
    }
    options.out = options.resume = folder;
    expect_text(folder);
    check_resumable(from_->options, options);
    check(options, observer_);
    Trainer trainer(graph, options, &folder_, &*from_, throughput, observer_);
    from_.reset();  // the trainer has its own copy of the state
    return trainer.run();
  }

 private:
  RunFolder folder_;
  std::optional<Checkpoint> from_;
  Observer& observer_;
};

GraphFunction graph_of(const TrainOptions& options) {
  return [model = options.model](const ModelSpec& spec) { return build_model(model, spec); };
}

TrainOptions resolved(const TrainOptions& options) {
  return with_recipe(options, find_model(options.model).recipe);
}

}  // namespace

TrainResult train_graph(const GraphFunction& graph, const TrainOptions& options,
                        Throughput& throughput, Observer& observer) {
  if (!options.resume) return begin(graph, options, throughput, observer);
  return Interrupted(*options.resume, observer).go_on(graph, options, throughput);
}

TrainResult train(const TrainOptions& options, Observer* observer) {
  Observer silent;
  Throughput throughput;
  return train_graph(graph_of(options), resolved(options), throughput,
                     observer ? *observer : silent);
}

TrainResult train(const ModelFunction& logits, const TrainOptions& options, Observer* observer) {
  Observer silent;
  Throughput throughput;
  TrainOptions own = with_recipe(options, Recipe{});
  own.model = kOwnModel;
  const auto graph = [&](const ModelSpec& spec) { return classifier(own.model, logits, spec); };
  return train_graph(graph, own, throughput, observer ? *observer : silent);
}

TrainResult resume(const std::string& folder, const OptionsChange& change, Observer* observer) {
  Observer silent;
  Throughput throughput;
  Interrupted run(folder, observer ? *observer : silent);
  TrainOptions before = run.options();
  before.out = folder;  // which may have been moved
  const TrainOptions options = resolved(change(before));
  return run.go_on(graph_of(options), options, throughput);
}

}  // namespace crossbow
