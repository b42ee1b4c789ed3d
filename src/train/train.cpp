#include "train/train.h"

#include <filesystem>

#include "core/error.h"
#include "train/config.h"
#include "train/recipe.h"
#include "train/trainer.h"

namespace crossbow {
namespace {

TrainResult train_graph(const GraphFunction& graph, TrainOptions options, Observer* observer) {
  Observer silent;
  Observer& watch = observer ? *observer : silent;
  std::optional<Checkpoint> from;
  if (options.resume) {
    if (std::filesystem::is_regular_file(*options.resume)) {
      fail_usage("--resume {}: give the run's folder, not a file in it", *options.resume);
    }
    if (options.out && *options.out != *options.resume) {
      fail_usage("--out {}: a resumed run stays in its folder {}", *options.out, *options.resume);
    }
    options.out = options.resume;
    from = load_checkpoint(*options.resume, [&](std::string_view text) { watch.note(text); });
    check_resumable(from->options, options);
  }
  validate(options);
  RunFolder::check(options);
  return Trainer(graph, options, from ? &*from : nullptr, watch).run();
}

}  // namespace

TrainResult train(const TrainOptions& options, Observer* observer) {
  const Model& model = find_model(options.model);
  const auto graph = [&](const ModelSpec& spec) { return build_model(options.model, spec); };
  return train_graph(graph, with_recipe(options, model.recipe), observer);
}

TrainResult train(const ModelFunction& logits, const TrainOptions& options, Observer* observer) {
  TrainOptions own = with_recipe(options, Recipe{});
  own.model = kOwnModel;
  const auto graph = [&](const ModelSpec& spec) { return classifier(own.model, logits, spec); };
  return train_graph(graph, own, observer);
}

}  // namespace crossbow
