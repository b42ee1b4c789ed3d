#include "models/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/nearest.h"
#include "core/registry.h"
#include "graph/source.h"
#include "models/options.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/sparse_rows.h"

namespace crossbow {
namespace {

struct ByNameAndNumber {  // resnet-20 before resnet-110
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const {
    return strverscmp(std::string(a).c_str(), std::string(b).c_str()) < 0;
  }
};

Registry<Model, ByNameAndNumber>& registry() {
  static Registry<Model, ByNameAndNumber> models("model");
  return models;
}

std::vector<std::string_view> names_nearest_first(std::string_view asked) {
  std::vector<std::string_view> names = registry().names();
  std::stable_sort(names.begin(), names.end(), [&](std::string_view a, std::string_view b) {
    return edit_distance(asked, a) < edit_distance(asked, b);
  });
  return names;
}

/// `options` and what a name like "mlp:layers=8,width=512" adds.
std::map<std::string, std::string> with_options_of(std::string_view name,
                                                   std::map<std::string, std::string> options) {
  const size_t colon = name.find(':');
  if (colon == name.npos) return options;
  std::string_view rest = name.substr(colon + 1);
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (equals == item.npos || equals == 0) {
      fail_usage("'{}' in the model '{}' must be written as option=value", item, name);
    }
    const std::string option(item.substr(0, equals));
    if (!options.emplace(option, item.substr(equals + 1)).second) {
      fail_usage("the option '{}' of the model '{}' is set twice", option, name);
    }
  }
  return options;
}

void expect_loss(const ModelSpec& spec) {
  if (spec.label == LabelKind::class_set && std::holds_alternative<CrossEntropyLoss>(spec.loss)) {
    fail_usage("`loss` cross-entropy: each sample has a set of classes, not one; choose sigmoid");
  }
  if (spec.label == LabelKind::number && !std::holds_alternative<MSELoss>(spec.loss)) {
    fail_usage("`loss`: what is learnt of each sample is a number, not a class; choose mse");
  }
  if (spec.label == LabelKind::number && spec.classes != 1) {
    fail_usage("samples with a number each have one class, and not {}", spec.classes);
  }
}

/// A model that takes no rows of numbers gets none.
void expect_images(const Model& model, const ModelSpec& spec) {
  if (model.sparse_rows || spec.image.rank() != 1) return;
  std::vector<std::string_view> fit;
  for (const Model* m : all_models()) {
    if (m->sparse_rows && m->default_groups.empty() == spec.groups.empty()) fit.push_back(m->name);
  }
  fail_usage("the model '{}' learns images, but each sample is a row of {} numbers: choose {}",
             model.name, spec.image[0], fmt::join(fit, " or "));
}

/// What a net's function gives: tensors of its own graph, which has no inputs that no step feeds.
void expect_own(const Graph& graph, const NetOutputs& outputs, size_t inputs) {
  const auto is_own = [&](const Tensor& t) { return t && t.graph == &graph; };
  const auto is_own_head = [&](const AuxiliaryHead& head) { return is_own(head.logits); };
  if (!is_own(outputs.logits) || !std::ranges::all_of(outputs.auxiliary, is_own_head)) {
    fail_usage("the model '{}' ends in a tensor that it has not made from its images",
               graph.name());
  }
  if (graph.find("input").size() > inputs) {
    fail_usage("the model '{}' has an input of its own, which no batch has numbers for",
               graph.name());
  }
}

/// The loss and, times their weights, those of the auxiliary heads.
Tensor objective_of(const NetOutputs& outputs, Tensor loss, Tensor labels, const ModelSpec& spec) {
  Graph& graph = *loss.graph;
  for (const AuxiliaryHead& head : outputs.auxiliary) {
    if (head.logits.shape() != outputs.logits.shape()) {
      fail("the model '{}' ends in shape {}, but an auxiliary head of it in {}", graph.name(),
           outputs.logits.shape().str(), head.logits.shape().str());
    }
    const Tensor weight = fill(graph, loss.shape(), head.weight);
    loss = add(loss, multiply(append_loss(spec.loss, head.logits, labels), weight));
  }
  return loss;
}

}  // namespace

ModelSpec Model::default_spec(int64_t batch) const {
  ModelSpec spec{.image = default_image, .classes = default_classes, .batch = batch, .options = {}};
  if (default_groups.empty()) return spec;
  spec.loss = MSELoss{};
  spec.label = LabelKind::number;
  spec.room = RowRoom::of_each(static_cast<int64_t>(default_groups.size()));
  spec.groups = default_groups;
  return spec;
}

RegisterModel::RegisterModel(Model model) {
  const std::string name = model.name;
  registry().add(name, std::move(model));
}

const Model& find_model(std::string_view name) {
  const std::string_view plain = name.substr(0, name.find(':'));
  const Model* const model = registry().find(plain);
  if (!model) {
    fail_usage("there is no model '{}'; there are, the nearest first: {}", plain,
               fmt::join(names_nearest_first(plain), ", "));
  }
  return *model;
}

std::vector<const Model*> all_models() {
  std::vector<const Model*> models;
  for (const auto& [name, model] : registry()) models.push_back(&model);
  return models;
}

Graph classifier(const std::string& name, const ModelFunction& function, const ModelSpec& spec) {
  if (spec.batch < 1 || spec.classes < 1) {
    fail_usage("the model '{}' needs a batch and a number of classes of at least 1, not {} and {}",
               name, spec.batch, spec.classes);
  }
  if (!function) fail_usage("the model '{}' is an empty function", name);
  std::vector<int64_t> batch(spec.image.begin(), spec.image.end());
  batch.insert(batch.begin(), spec.batch);

  Graph graph(name);
  const Tensor images = spec.room ? sparse_rows(graph, spec.batch, spec.image.elements(), spec.room)
                        : spec.pixels ? pixels(graph, Shape(batch), *spec.pixels, kSamples)
                                      : input(graph, Shape(batch), kSamples, DType::f32, "images");
  expect_loss(spec);
  const bool one_class = spec.label == LabelKind::one_class;
  const Tensor labels =
      one_class ? input(graph, {spec.batch}, kLabels, DType::i32, "labels")
                : input(graph, {spec.batch, spec.classes}, kLabels, DType::f32, "labels");
  const size_t inputs = graph.find("input").size();
  const NetOutputs outputs = function(images);
  expect_own(graph, outputs, inputs);
  const Tensor logits = outputs.logits;
  const Shape wanted{spec.batch, spec.classes};
  const bool one_logit = one_class && std::holds_alternative<BCEWithLogitsLoss>(spec.loss) &&
                         spec.classes == 2 && logits.shape() == Shape{spec.batch, 1};
  if (logits.shape() != wanted && !one_logit) {
    fail("the model '{}' ends in shape {}, but a batch of {} in {} classes needs {}", name,
         logits.shape().str(), spec.batch, spec.classes, wanted.str());
  }
  graph.set_output("logits", logits.value);
  const Tensor loss = append_loss(spec.loss, logits, labels);
  graph.set_output("loss", loss.value);
  if (!outputs.auxiliary.empty()) {
    graph.set_output("objective", objective_of(outputs, loss, labels, spec).value);
  }
  if (spec.label == LabelKind::number) return graph;
  const Tensor right = !one_class  ? precision_at_1(logits, labels)
                       : one_logit ? binary_accuracy(logits, labels)
                                   : accuracy(logits, labels);
  graph.set_output("accuracy", right.value);
  return graph;
}

Graph build_model(std::string_view name, const ModelSpec& asked) {
  const Model& model = find_model(name);
  ModelSpec spec = asked;
  spec.options = with_options_of(name, asked.options);
  if (!model.logits) fail_usage("the model '{}' is an empty function", model.name);
  if (model.options_help.empty()) ModelOptions(model.name, spec.options).finish();
  expect_images(model, spec);
  return classifier(
      model.name, [&](Tensor images) { return model.logits(images, spec); }, spec);
}

}  // namespace crossbow
