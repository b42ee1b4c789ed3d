// The registered models, small enough for tests.
#pragma once

#include <algorithm>

#include "models/model.h"
#include "support/graph_testing.h"

namespace crossbow {

/// How googletest shows a test's parameter.
inline void PrintTo(const Model* model, std::ostream* out) {
  *out << model->name;
}

}  // namespace crossbow

namespace crossbow::testing {

/// The model's forward graph for four samples; nets for 32×32 colour images get 8×8 ones.
inline Graph small_model(const Model& model) {
  ModelSpec spec;
  spec.image = model.default_image;
  if (spec.image == Shape{3, 32, 32}) spec.image = {3, 8, 8};
  spec.classes = model.default_classes;
  spec.batch = 4;
  return build_model(model.name, spec);
}

inline Graph with_gradients(Graph graph) {
  differentiate(graph, graph.output("loss"));
  return graph;
}

inline std::string model_name(const ::testing::TestParamInfo<const Model*>& info) {
  std::string name = info.param->name;
  std::replace(name.begin(), name.end(), '-', '_');  // googletest allows no hyphens
  return name;
}

}  // namespace crossbow::testing
