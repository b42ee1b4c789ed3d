// The dataflow graph: typed nodes in topological order. A graph is built by the functions of ops/
// (`relu(x)`, `add(a, b)`) and models/layers.h, rewritten by passes, extended by autodiff and
// compiled by plan/. It is a plain value: copy it freely; no thread may change it while another
// reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace crossbow {

struct Op;
class Graph;

/// One output of one node. `node < 0` stands for an optional input that is absent.
struct Value {
  int32_t node = -1;
  int32_t output = 0;

  explicit operator bool() const { return node >= 0; }
  friend auto operator<=>(const Value&, const Value&) = default;
};

/// What a value holds. f32 stands for "floating point at the program's precision": the plan stores
/// it as f32, bf16 or (reference device) f64. Labels and masks keep their type.
struct TensorType {
  Shape shape;
  DType dtype = DType::f32;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Base of the attribute structs that ops define; immutable once in a node.
struct Attributes {
  virtual ~Attributes() = default;
};

struct Node {
  const Op* op = nullptr;
  std::string name;  // unique; layers use dots: "stage1.block0.conv1"
  std::vector<Value> inputs;
  std::vector<TensorType> outputs;
  std::shared_ptr<const Attributes> attributes;

  template <typename T>
  const T& attrs() const {
    return static_cast<const T&>(*attributes);
  }
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i]; }
};

/// A value together with its graph: what users chain. Does not own the graph.
struct Tensor {
  Graph* graph = nullptr;
  Value value;

  explicit operator bool() const { return static_cast<bool>(value); }
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  /// Another output of the same node.
  Tensor output(int i) const { return {graph, {value.node, i}}; }
};

class Graph {
 public:
  explicit Graph(std::string name = "net") : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(Value v) const { return nodes_[v.node]; }
  const TensorType& type(Value v) const { return nodes_[v.node].outputs[v.output]; }
  std::vector<TensorType> input_types(const Node& node) const;

  /// Appends a node, infers its output types, and returns its first output. `name` empty: made from
  /// the op's name and a number; the current scopes are put before it. Throws Error naming the
  /// layer and the shapes if the inputs do not fit.
  Tensor append(const Op& op, std::vector<Value> inputs,
                std::shared_ptr<const Attributes> attributes = nullptr, std::string name = {});

  /// Names that following nodes carry as a prefix, while the returned object lives.
  class Scope {
   public:
    Scope(Graph& graph, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Graph& graph_;
    size_t previous_;
  };
  Scope scope(std::string_view name) { return Scope(*this, name); }

  /// Named results that must survive dead-code removal: "loss", "accuracy", "logits",
  /// "gradient:<parameter>".
  const std::map<std::string, Value>& outputs() const { return outputs_; }
  void set_output(const std::string& name, Value v) { outputs_[name] = v; }
  Value output(const std::string& name) const;  // throws Error listing what there is

  /// Ids of the nodes of that op, in order.
  std::vector<int32_t> find(std::string_view op_name) const;
  /// What append would call a node of that name in the current scope (which is left out of the
  /// result): `name`, or with a number behind it if there is such a node already.
  std::string free_name(const std::string& name) const;

  /// How many times each node's outputs are used, the named outputs included.
  std::vector<int> use_counts() const;

 private:
  std::string name_, scope_;
  std::vector<Node> nodes_;
  std::map<std::string, Value> outputs_;
  std::set<std::string> used_names_;
};

inline const TensorType& Tensor::type() const {
  return graph->type(value);
}

}  // namespace crossbow
