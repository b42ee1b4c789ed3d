#include "graph/source.h"

#include "core/batch_format.h"
#include "core/error.h"
#include "graph/op.h"

namespace crossbow {
namespace {

// A source's type is its attribute, for infer has no inputs to derive it from.
template <typename Base>
struct Typed : Base {
  TensorType type;
};

template <typename Base>
std::vector<TensorType> infer_typed(const Node& node, std::span<const TensorType>) {
  return {node.attrs<Typed<Base>>().type};
}

template <typename Base>
Tensor append_source(Graph& graph, const Op& op, TensorType type, Base base, std::string name) {
  auto attributes = std::make_shared<Typed<Base>>();
  static_cast<Base&>(*attributes) = std::move(base);
  attributes->type = type;
  return graph.append(op, {}, std::move(attributes), std::move(name));
}

template <typename Base>
std::shared_ptr<const Attributes> frozen(const Node& source) {
  auto attributes = std::make_shared<Typed<Base>>(source.attrs<Typed<Base>>());
  attributes->frozen = true;
  return attributes;
}

template <typename Base>
std::shared_ptr<const Attributes> with_batch(const Node& source, int64_t batch) {
  auto attributes = std::make_shared<Typed<Base>>(source.attrs<Typed<Base>>());
  attributes->type.shape = attributes->type.shape.with_batch(batch);
  return attributes;
}

void expect_slot(int slot) {
  if (slot < 0 || slot >= static_cast<int>(kFields)) {
    fail("a batch has fields 0 to {}, and no {}", kFields - 1, slot);
  }
}

const Op& kInput = register_op({.name = "input", .infer = infer_typed<InputAttributes>});
const Op& kParameter =
    register_op({.name = "parameter", .infer = infer_typed<ParameterAttributes>});
const Op& kState = register_op({.name = "state", .infer = infer_typed<StateAttributes>});
const Op& kFill = register_op({.name = "fill", .infer = infer_typed<FillAttributes>});

}  // namespace

Tensor input(Graph& graph, Shape shape, int slot, DType dtype, std::string name) {
  expect_slot(slot);
  InputAttributes a;
  a.slot = slot;
  return append_source(graph, kInput, {shape, dtype}, a, std::move(name));
}

Tensor pixels(Graph& graph, Shape shape, const Normalisation& normalisation, int slot,
              std::string name) {
  expect_slot(slot);
  if (shape.rank() != 4 || shape[1] > 3) {
    fail("pixels lie in 1 to 3 channels of images, not in shape {}", shape.str());
  }
  InputAttributes a;
  a.slot = slot;
  a.normalisation = normalisation;
  return append_source(graph, kInput, {shape}, a, std::move(name));
}

Tensor parameter(Graph& graph, Shape shape, Initialiser initialiser, std::string name) {
  ParameterAttributes a;
  a.initialiser = initialiser;
  return append_source(graph, kParameter, {shape}, a, std::move(name));
}

Tensor state(Graph& graph, Shape shape, float value, std::string name) {
  StateAttributes a;
  a.value = value;
  return append_source(graph, kState, {shape}, a, std::move(name));
}

Tensor fill(Graph& graph, Shape shape, float value) {
  FillAttributes a;
  a.value = value;
  return append_source(graph, kFill, {shape}, a, "constant");
}

Tensor fill_like(Tensor rows, float value) {
  FillAttributes a;
  a.value = value;
  a.by_row = true;
  return append_source(*rows.graph, kFill, {rows.shape()}, a, "constant");
}

std::shared_ptr<const Attributes> source_attributes_with_batch(const Node& node, int64_t batch) {
  if (node.op == &kInput) return with_batch<InputAttributes>(node, batch);
  const bool by_row = node.op == &kFill && node.attrs<FillAttributes>().by_row;
  return by_row ? with_batch<FillAttributes>(node, batch) : nullptr;
}

std::shared_ptr<const Attributes> frozen_attributes(const Node& source) {
  return source.op == &kParameter ? frozen<ParameterAttributes>(source)
                                  : frozen<StateAttributes>(source);
}

}  // namespace crossbow
