// The registry of models: one C++ function each, with the recipe that trains it well.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch_format.h"
#include "core/normalisation.h"
#include "graph/graph.h"
#include "models/loss.h"

namespace crossbow {

/// What a model is built for.
struct ModelSpec {
  Shape image;  // of one sample: CHW, or [features]
  int64_t classes = 10;
  int64_t batch = 16;
  /// "resnet-32" needs none; "mlp:layers=8,width=512,activation=sigmoid" sets options.
  std::map<std::string, std::string> options;
  Loss loss = CrossEntropyLoss{};
  LabelKind label = LabelKind::one_class;
  std::shared_ptr<const RowRoom> room = nullptr;  // of samples that are sparse rows; else null
  std::vector<int64_t> groups = {};               // as data::Info has them
  std::optional<Normalisation> pixels = {};       // samples are bytes, which the net normalises

  BatchFormat batch_format() const {
    return BatchFormat::of(image, classes, label, room, pixels ? DType::u8 : DType::f32);
  }
};

/// Defaults of `train` for a model; from the published recipes, milestones in epochs.
struct Recipe {
  std::string data;
  int64_t image_size = 0;  // of pictures that stay encoded, which have none of their own; 0: any
  int64_t epochs = 1;
  std::string loss = "cross-entropy";  // as `train` names it
  double lr = 0.01;
  std::string lr_schedule = "fixed";  // fixed | step | multistep | cosine
  std::vector<double> lr_milestones;  // epochs
  double lr_gamma = 0.1;
  double warmup = 0;  // epochs
  double momentum = 0.9;
  double weight_decay = 0;
  int pad = 0;  // pixels around the image for random crops
  bool mirror = false;
  /// Of colour images, in place of the data set's.
  std::optional<Normalisation> normalisation = {};
};

/// Further logits, shaped as the net's: training minimises their loss too, times the weight.
/// Evaluation leaves them out.
struct AuxiliaryHead {
  Tensor logits;
  float weight;
};

/// What a net ends in: logits [N, classes].
struct NetOutputs {
  Tensor logits;
  std::vector<AuxiliaryHead> auxiliary;

  NetOutputs(Tensor logits, std::vector<AuxiliaryHead> auxiliary = {})  // NOLINT: mostly of one
      : logits(logits), auxiliary(std::move(auxiliary)) {}
};

struct Model {
  std::string name, summary;
  Shape default_image;
  int64_t default_classes;
  std::vector<int64_t> default_groups = {};  // of a model of ratings
  Recipe recipe;
  std::string options_help;  // empty if it takes none
  /// From the input tensor to logits.
  std::function<NetOutputs(Tensor x, const ModelSpec& spec)> logits;
  bool sparse_rows = false;  // x may be such (ops/sparse_rows.h)

  /// For samples as the model is known by.
  ModelSpec default_spec(int64_t batch) const;
};

struct RegisterModel {
  explicit RegisterModel(Model model);
};
/// `name` may carry options after a colon. Throws UsageError naming the models there are, the
/// nearest first.
const Model& find_model(std::string_view name);
std::vector<const Model*> all_models();

/// A net as a user writes it: from images [N, C, H, W] to logits [N, classes].
using ModelFunction = std::function<NetOutputs(Tensor images)>;

/// The forward graph: inputs "images" (slot 0; floats or the spec's pixels), or its sparse rows,
/// and "labels" (slot 1), outputs "logits", "loss" (the spec's, of these), "accuracy" and, of a net
/// with auxiliary heads, "objective": the loss and theirs. Labels are classes, i32 [N]; or sets of
/// classes, f32 [N, classes] with a 1 for each, and then the accuracy is precision@1; or numbers,
/// f32 [N, 1], of which there is no accuracy.
/// Throws Error if the logits have another shape than the spec's batch and classes ask for: [N,
/// classes], or [N, 1] of two classes with BCEWithLogitsLoss.
Graph classifier(const std::string& name, const ModelFunction& logits, const ModelSpec& spec);
/// From the shape of a data set to such a graph.
using GraphFunction = std::function<Graph(const ModelSpec& spec)>;
/// The same for a registered model; `name` as for find_model.
Graph build_model(std::string_view name, const ModelSpec& spec);

}  // namespace crossbow
