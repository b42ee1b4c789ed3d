// crossbow eval
#include <fmt/format.h>

#include <chrono>

#include "cli/confusion_table.h"
#include "cli/inference.h"
#include "cli/results.h"
#include "core/seconds_since.h"

namespace crossbow::cli {
namespace {

constexpr const char* kEvalExamples = R"(Examples:
  crossbow eval runs/lenet-digits-1
  crossbow eval runs/lenet-digits-1 --data mnist:DIR
  crossbow eval runs/lenet-digits-1/checkpoint.best --json
  crossbow eval runs/resnet-50-1 --device cuda:0,cuda:1
)";

struct EvalFlags {
  InferenceFlags inference;
  bool json = false;
};

struct Result {
  Evaluation mean;
  std::optional<ClassResult> classes;  // of samples with one class each
};

Result evaluate(const TrainedModel& model, const data::Dataset& dataset) {
  if (dataset.info.label != LabelKind::one_class) return {model.run(dataset, {}), {}};
  const int64_t classes = dataset.info.classes;
  std::vector<int64_t> predicted(static_cast<size_t>(dataset.test->size()));
  const auto note = [&](int64_t first, std::span<const double> logits) {
    for (; !logits.empty(); logits = logits.subspan(static_cast<size_t>(classes))) {
      predicted[static_cast<size_t>(first++)] =
          predicted_class(logits.first(static_cast<size_t>(classes)));
    }
  };
  const Evaluation mean = model.run(dataset, note);
  ClassResult by_class{Confusion(classes), dataset.info.class_names,
                       fmt::format("{}s", dataset.info.noun())};
  for (size_t i = 0; i < predicted.size(); ++i) {
    by_class.confusion.add(dataset.test->label(static_cast<int64_t>(i)), predicted[i]);
  }
  return {mean, std::move(by_class)};
}

std::string quality_text(const Result& result) {
  if (result.mean.rmse) return rmse_text(*result.mean.rmse);
  return fmt::format("{} {}", result.classes ? "accuracy" : "precision@1",
                     percent(*result.mean.accuracy));
}

int run(const EvalFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const TrainedModel model = flags.inference.model();
  const auto dataset = model.open_data();
  const Result result = evaluate(model, *dataset);
  const double seconds = seconds_since(start);
  const RunConfig& c = model.config();
  if (flags.json) {
    Json j{{"model", c.model},
           {"data", c.data},
           {"samples", dataset->test->size()},
           {"test_accuracy", result.mean.accuracy ? Json(*result.mean.accuracy) : Json(nullptr)},
           {"test_loss", result.mean.loss},
           {"seconds", seconds}};
    if (result.mean.top5) j["test_top5"] = *result.mean.top5;
    if (result.mean.auc) j["test_auc"] = *result.mean.auc;
    if (result.classes) {
      j["per_class"] = per_class_json(*result.classes);
      j["confusion"] = confusion_json(result.classes->confusion);
    } else if (result.mean.accuracy) {
      j["test_precision_at_1"] = *result.mean.accuracy;
    }
    if (result.mean.rmse) j["test_rmse"] = *result.mean.rmse;
    print_json(j);
    return 0;
  }
  put_wrapped(
      stdout, "",
      fmt::format("{} on {}: test {}{}, test loss {:.4f}{} over {}", c.model, printable(c.data),
                  quality_text(result), top5_text(result.mean.top5), result.mean.loss,
                  auc_text(result.mean.auc), count(dataset->test->size(), dataset->info.noun())));
  if (result.classes) print_classes(*result.classes);
  return 0;
}

}  // namespace

Run add_eval(CLI::App& root) {
  CLI::App& app =
      *root.add_subcommand("eval", "accuracy and loss of a trained model on test images");
  const auto flags = std::make_shared<EvalFlags>();
  flags->inference.add(app, /*data=*/true);
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.footer(kEvalExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
