// crossbow eval
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/inference.h"
#include "train/confusion.h"

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
  Confusion confusion;
  std::vector<std::string> names;  // of the classes
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
  Result result{model.run(dataset, note), Confusion(classes), dataset.info.class_names};
  for (size_t i = 0; i < predicted.size(); ++i) {
    result.confusion.add(dataset.test->label(static_cast<int64_t>(i)), predicted[i]);
  }
  for (std::string& name : result.names) name = printable(name);
  return result;
}

Json per_class_json(const Result& r) {
  Json list = Json::array();
  for (int64_t c = 0; c < r.confusion.classes(); ++c) {
    const int64_t samples = r.confusion.samples(c);
    list.push_back({{"class", r.names[static_cast<size_t>(c)]},
                    {"samples", samples},
                    {"accuracy", samples > 0 ? Json(r.confusion.accuracy(c)) : Json(nullptr)}});
  }
  return list;
}

Json confusion_json(const Confusion& confusion) {
  Json rows = Json::array();
  for (int64_t a = 0; a < confusion.classes(); ++a) {
    Json row = Json::array();
    for (int64_t p = 0; p < confusion.classes(); ++p) row.push_back(confusion.count(a, p));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string accuracy_text(const Confusion& confusion, int64_t c) {
  return confusion.samples(c) > 0 ? percent(confusion.accuracy(c)) : "-";
}

/// A row for each class, with a column for each that was predicted. Columns are as narrow as their
/// counts; names that do not fit stand at the rows only, with a number. False, and nothing is
/// printed, if that is too wide.
bool print_matrix(const Result& r) {
  const Confusion& confusion = r.confusion;
  const int64_t classes = confusion.classes();
  int64_t most = 0;
  for (int64_t a = 0; a < classes; ++a) {
    for (int64_t p = 0; p < classes; ++p) most = std::max(most, confusion.count(a, p));
  }
  const size_t cell = std::max<size_t>(3, std::to_string(most).size());
  std::vector<std::string> rows = r.names, columns = r.names;
  if (std::any_of(rows.begin(), rows.end(), [&](const auto& n) { return n.size() > cell; })) {
    for (size_t c = 0; c < rows.size(); ++c) {
      columns[c] = std::to_string(c);
      rows[c] = columns[c] + ' ' + rows[c];
    }
  }
  size_t name = std::string_view("class").size();
  for (const std::string& n : rows) name = std::max(name, n.size());
  constexpr size_t kNumbers = 18;  // columns of each row's own
  if (name + kNumbers + rows.size() * (cell + 1) > cli::columns(stdout)) return false;
  put("\n{:<{}} {:>6} {:>9}  predicted as\n", "", name, "", "");
  put("{:<{}} {:>6} {:>9} ", "class", name, "images", "accuracy");
  for (const std::string& n : columns) put(" {:>{}}", n, cell);
  put("\n");
  for (int64_t a = 0; a < classes; ++a) {
    put("{:<{}} {:>6} {:>9} ", rows[static_cast<size_t>(a)], name, grouped(confusion.samples(a)),
        accuracy_text(confusion, a));
    for (int64_t p = 0; p < classes; ++p) {
      const int64_t n = confusion.count(a, p);
      put(" {:>{}}", n > 0 ? std::to_string(n) : ".", cell);
    }
    put("\n");
  }
  return true;
}

/// Of many classes, where the model is weakest.
void print_worst(const Result& r) {
  constexpr size_t kShown = 10;
  const auto name = [&](int64_t c) -> const std::string& {
    return r.names[static_cast<size_t>(c)];
  };
  const auto worst = r.confusion.worst_first();
  put("\n{:<28} {:>8} {:>9}\n", "least accurate classes", "images", "accuracy");
  for (size_t i = 0; i < std::min(kShown, worst.size()); ++i) {
    put("{:<28} {:>8} {:>9}\n", name(worst[i]), grouped(r.confusion.samples(worst[i])),
        accuracy_text(r.confusion, worst[i]));
  }
  const auto mistakes = r.confusion.mistakes();
  if (mistakes.empty()) return;
  put("\n{:<28} {:<28} {:>8}\n", "most frequent confusions of", "with", "images");
  for (size_t i = 0; i < std::min(kShown, mistakes.size()); ++i) {
    put("{:<28} {:<28} {:>8}\n", name(mistakes[i].actual), name(mistakes[i].predicted),
        grouped(mistakes[i].count));
  }
}

int run(const Flags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const TrainedModel model = flags.inference.model();
  const auto dataset = model.open_data();
  const Result result = evaluate(model, *dataset);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const TrainOptions& o = model.options();
  if (flags.json) {
    print_json({{"model", o.model},
                {"data", *o.data},
                {"samples", dataset->test->size()},
                {"test_accuracy", result.mean.accuracy},
                {"test_loss", result.mean.loss},
                {"seconds", seconds.count()},
                {"per_class", per_class_json(result)},
                {"confusion", confusion_json(result.confusion)}});
    return 0;
  }
  put_wrapped(stdout, "",
              fmt::format("{} on {}: test accuracy {}, test loss {:.4f} over {} images", o.model,
                          printable(*o.data), percent(result.mean.accuracy), result.mean.loss,
                          grouped(dataset->test->size())));
  if (!print_matrix(result)) print_worst(result);
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
