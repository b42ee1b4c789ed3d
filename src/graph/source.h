// The nodes that a graph starts from: what each step feeds, what is trained, what is carried along.
#pragma once

#include <optional>

#include "core/normalisation.h"
#include "graph/graph.h"

namespace crossbow {

/// How a parameter's first values are drawn; plan/parameters.cpp draws them.
struct Initialiser {
  enum class Kind { constant, uniform, gaussian, truncated_gaussian, xavier, he };
  enum class Fan { in, out, average };

  Kind kind = Kind::constant;
  float a = 0;  // constant: value; uniform: low; gaussian: mean
  float b = 0;  // uniform: high; gaussian: standard deviation
  Fan fan = Fan::in;

  static Initialiser constant(float value) { return {Kind::constant, value}; }
  static Initialiser uniform(float low, float high) { return {Kind::uniform, low, high}; }
  static Initialiser gaussian(float mean, float std) { return {Kind::gaussian, mean, std}; }
  /// Redrawn until within two standard deviations of the mean.
  static Initialiser truncated_gaussian(float mean, float std) {
    return {Kind::truncated_gaussian, mean, std};
  }
  /// Uniform in ±sqrt(3 / fan) (Glorot & Bengio 2010 for the average of both fans).
  static Initialiser xavier(Fan fan = Fan::in) { return {Kind::xavier, 0, 0, fan}; }
  /// Normal with variance 2 / fan (He et al. 2015).
  static Initialiser he(Fan fan = Fan::out) { return {Kind::he, 0, 0, fan}; }
};

struct InputAttributes : Attributes {
  int slot = 0;  // index into Step::inputs
  /// The step feeds bytes, which become floats by this; else what the tensor has.
  std::optional<Normalisation> normalisation = {};

  DType fed(DType dtype) const { return normalisation ? DType::u8 : dtype; }
};

struct ParameterAttributes : Attributes {
  Initialiser initialiser;
  bool frozen = false;  // keeps its values: it gets no gradient
};

struct StateAttributes : Attributes {
  float value = 0;      // what every element starts as
  bool frozen = false;  // no kernel changes it
};

struct FillAttributes : Attributes {
  float value = 0;
  bool by_row = false;  // the first dimension is that of a batch
};

/// A batch that the step feeds: row-major, NCHW. `slot` is its index in Step::inputs, below
/// kFields.
Tensor input(Graph& graph, Shape shape, int slot = 0, DType dtype = DType::f32,
             std::string name = "input");
/// The same of pixels, which the step feeds as bytes: the tensor has their normalised values.
Tensor pixels(Graph& graph, Shape shape, const Normalisation& normalisation, int slot = 0,
              std::string name = "images");
/// A trained tensor. Rank 4: OIHW weights; rank 2: [outputs, inputs]; rank 1: per channel.
Tensor parameter(Graph& graph, Shape shape, Initialiser initialiser, std::string name);
/// A tensor that training carries along but does not differentiate (running statistics). The only
/// values that a kernel may change in place as a side effect.
Tensor state(Graph& graph, Shape shape, float value, std::string name);
/// The node's attributes for another number of rows; null if that does not change them.
std::shared_ptr<const Attributes> source_attributes_with_batch(const Node& node, int64_t batch);
/// Of a parameter or a state, one that keeps its values.
std::shared_ptr<const Attributes> frozen_attributes(const Node& source);
/// Every element the same constant. For constants with a batch dimension see fill_like.
Tensor fill(Graph& graph, Shape shape, float value);
/// Shaped as `rows`, at any number of rows.
Tensor fill_like(Tensor rows, float value);

}  // namespace crossbow
