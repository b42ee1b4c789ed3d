// The registered models, small enough for tests.
#pragma once

#include <algorithm>
#include <set>

#include "models/model.h"
#include "support/graph_testing.h"

namespace crossbow {

/// How googletest shows a test's parameter.
inline void PrintTo(const Model* model, std::ostream* out) {
  *out << model->name;
}

}  // namespace crossbow

namespace crossbow::testing {

inline bool is_for_imagenet(const Model& model) {
  return model.default_image.rank() == 3 && model.default_image[1] >= 224;
}

/// Of nets for ImageNet those that are made of other blocks than the rest and take small images.
inline std::vector<const Model*> distinct_models() {
  const std::set<std::string> distinct{"resnet-50", "mobilenet-v2", "googlenet"};
  std::vector<const Model*> models = all_models();
  std::erase_if(models, [&](const Model* model) {
    return is_for_imagenet(*model) && !distinct.contains(model->name);
  });
  return models;
}

/// Those that take images: all but models of ratings.
inline std::vector<const Model*> image_models() {
  std::vector<const Model*> models = distinct_models();
  std::erase_if(models, [](const Model* model) { return !model->default_groups.empty(); });
  return models;
}

/// The model's forward graph for four samples; nets for colour images of
/// 32×32 or 224×224 get such of 8×8 or 32×32.
inline Graph small_model(const Model& model) {
  ModelSpec spec = model.default_spec(/*batch=*/4);
  if (spec.image == Shape{3, 32, 32}) spec.image = {3, 8, 8};
  if (is_for_imagenet(model)) spec.image = {3, 32, 32};
  if (!spec.groups.empty()) {
    spec.image = {5};
    spec.groups = {3, 2};                // so small that some random row has a column of each
    spec.options.emplace("decay", "0");  // which is no part of the loss
  }
  return build_model(model.name, spec);
}

inline Graph with_gradients(Graph graph) {
  differentiate(graph, objective(graph));
  return graph;
}

inline std::string model_name(const ::testing::TestParamInfo<const Model*>& info) {
  std::string name = info.param->name;
  std::replace(name.begin(), name.end(), '-', '_');  // googletest allows no hyphens
  return name;
}

}  // namespace crossbow::testing
