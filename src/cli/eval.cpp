// crossbow eval
#include <fmt/format.h>

#include <chrono>

#include "cli/confusion_table.h"
#include "cli/inference.h"

namespace crossbow::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  crossbow eval runs/lenet-digits-1
  crossbow eval runs/lenet-digits-1 --data mnist:DIR
  crossbow eval runs/lenet-digits-1/checkpoint.best --json
)";

struct Flags {
  InferenceFlags inference;
  bool json = false;
};

struct Result {
  Evaluation mean;
  ClassResult classes;
};

Result evaluate(const TrainedModel& model, const data::Dataset& dataset) {
  const int64_t classes = dataset.info.classes;
  std::vector<int64_t> predicted(static_cast<size_t>(dataset.test->size()));
  const auto note = [&](int64_t first, std::span<const double> logits) {
    for (; !logits.empty(); logits = logits.subspan(static_cast<size_t>(classes))) {
      predicted[static_cast<size_t>(first++)] =
          predicted_class(logits.first(static_cast<size_t>(classes)));
    }
  };
  Result result{model.run(dataset, note), {Confusion(classes), dataset.info.class_names}};
  for (size_t i = 0; i < predicted.size(); ++i) {
    result.classes.confusion.add(dataset.test->label(static_cast<int64_t>(i)), predicted[i]);
  }
  for (std::string& name : result.classes.names) name = printable(name);
  return result;
}

int run(const Flags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const TrainedModel model = flags.inference.model();
  const auto dataset = model.open_data();
  const Result result = evaluate(model, *dataset);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const RunConfig& c = model.config();
  if (flags.json) {
    print_json({{"model", c.model},
                {"data", c.data},
                {"samples", dataset->test->size()},
                {"test_accuracy", result.mean.accuracy},
                {"test_loss", result.mean.loss},
                {"seconds", seconds.count()},
                {"per_class", per_class_json(result.classes)},
                {"confusion", confusion_json(result.classes.confusion)}});
    return 0;
  }
  put_wrapped(stdout, "",
              fmt::format("{} on {}: test accuracy {}, test loss {:.4f} over {} images", c.model,
                          printable(c.data), percent(result.mean.accuracy), result.mean.loss,
                          grouped(dataset->test->size())));
  print_classes(result.classes);
  return 0;
}

}  // namespace

Run add_eval(CLI::App& root) {
  CLI::App& app =
      *root.add_subcommand("eval", "accuracy and loss of a trained model on test images");
  const auto flags = std::make_shared<Flags>();
  flags->inference.add(app, /*data=*/true);
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.footer(kExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
