#include "support/node_oracle.h"

#include <fmt/format.h>

#include <map>

namespace crossbow::testing {
namespace {

constexpr uint64_t kSeed = 1;  // of random numbers in a step: dropout's

using Numbers = std::vector<double>;

std::string name_of_value(Value v) {
  return fmt::format("value {}.{}", v.node, v.output);
}

bool is_source(const Node& node) {
  return node.op->name == "parameter" || node.op->name == "state";
}

/// Whether a device keeps to itself what the value means.
bool is_private(const Node& node, int output) {
  return node.outputs[static_cast<size_t>(output)].dtype != DType::f32 && node.op->name != "input";
}

double norm_of(const Numbers& a) {
  double sum = 0;
  for (double x : a) sum += x * x;
  return std::sqrt(sum);
}

double distance(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// What a net that has run holds.
class Ran {
 public:
  Ran(const GraphRun& net, std::map<std::string, Numbers> states)
      : net_(net), states_before_(std::move(states)) {
    constexpr std::string_view kPrefix = "gradient:";
    for (const auto& [name, v] : net.graph().outputs()) {
      if (name.rfind(kPrefix, 0) == 0) gradients_[v] = name.substr(kPrefix.size());
    }
  }

  Numbers numbers(Value v) const {
    const Node& node = net_.graph().node(v);
    if (is_source(node)) return net_.get(node.name);
    const auto it = gradients_.find(v);
    return it != gradients_.end() ? net_.gradient(it->second) : net_.values(name_of_value(v));
  }
  const Numbers& state_before(const std::string& name) const { return states_before_.at(name); }
  const Graph& graph() const { return net_.graph(); }
  const GraphRun& net() const { return net_; }

 private:
  const GraphRun& net_;
  std::map<std::string, Numbers> states_before_;
  std::map<Value, std::string> gradients_;
};

/// One node of a net as a net of its own on the reference device, whose parameters are what the
/// node read.
class Alone {
 public:
  Alone(const Ran& ran, int32_t id) : ran_(ran) {
    const Node& node = ran.graph().nodes()[id];
    const Tensor y = copy(node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const int output = static_cast<int>(i);
      if (is_private(node, output)) continue;
      graph_.set_output(std::to_string(i), y.output(output).value);
      outputs_.push_back(output);
    }
    run_ = std::make_unique<GraphRun>(graph_, reference(), Values::f32, kSeed);
    if (!labels_.empty()) run_->feed(1, labels_);
  }

  /// The results, one after the other; the node's inputs are moved by up to `relative` of their
  /// size.
  std::vector<Numbers> results(double relative = 0, uint32_t draw = 0) {
    Rng rng(kSeed, Purpose::synthetic, draw);
    for (const auto& [name, v] : read_) {
      Numbers numbers = ran_.numbers(v);
      for (double& x : numbers) x *= 1 + relative * static_cast<double>(rng.uniform(-1, 1));
      run_->set(name, numbers);
    }
    for (const std::string& name : states_) run_->set(name, ran_.state_before(name));
    run_->run();
    std::vector<Numbers> all;
    for (int output : outputs_) all.push_back(run_->values(std::to_string(output)));
    for (const std::string& name : states_) all.push_back(run_->get(name));
    return all;
  }

  /// What the net has in the place of `results`.
  std::vector<Numbers> actual(int32_t id) const {
    std::vector<Numbers> all;
    for (int output : outputs_) all.push_back(ran_.numbers({id, output}));
    for (const std::string& name : states_) all.push_back(ran_.net().get(name));
    return all;
  }

 private:
  Tensor copy(const Node& node) {
    std::vector<Value> inputs;
    for (Value v : node.inputs) inputs.push_back(v ? operand(v) : Value{});
    return graph_.append(*node.op, inputs, node.attributes, node.name);
  }

  Value operand(Value v) {
    const auto known = operands_.find(v);
    if (known != operands_.end()) return known->second;
    const Node& node = ran_.graph().node(v);
    const TensorType& type = ran_.graph().type(v);
    Tensor made;
    if (node.op->name == "state") {
      made = state(graph_, type.shape, 0, node.name);
      states_.push_back(node.name);
    } else if (type.dtype == DType::f32) {
      made = parameter(graph_, type.shape, Initialiser::constant(0), name_of_value(v));
      read_.emplace_back(name_of_value(v), v);
    } else if (node.op->name == "input") {
      made = input(graph_, type.shape, 1, type.dtype);
      for (double label : ran_.numbers(v)) labels_.push_back(static_cast<int32_t>(label));
    } else {
      made = copy(node).output(v.output);  // a mask or positions: made again
    }
    return operands_[v] = made.value;
  }

  const Ran& ran_;
  Graph graph_;
  std::map<Value, Value> operands_;
  std::vector<std::pair<std::string, Value>> read_;  // parameters, and what they stand for
  std::vector<std::string> states_;
  std::vector<int32_t> labels_;
  std::vector<int> outputs_;
  std::unique_ptr<GraphRun> run_;
};

/// How far results may be from exact ones: a share of their own size, and of how far they move when
/// the inputs are rounded, which is what cancellation amplifies.
struct Tolerance {
  double of_result, rounding, of_moves;
};

Tolerance tolerance_of(DType precision, const std::string& implementation) {
  if (precision == DType::bf16) return {0x1p-7, 0x1p-9, 8};
  const bool winograd = implementation.find("wino") != std::string::npos;
  return winograd ? Tolerance{1e-3, 0x1p-23, 10'000} : Tolerance{2e-6, 0x1p-23, 32};
}

std::string implementation_of(const Program& program, const Node& node) {
  for (const Program::KernelInfo& info : program.kernel_infos()) {
    if (info.name == node.name && info.kind == node.op->name) return info.implementation;
  }
  return {};
}

std::string description(const Graph& graph, const Node& node) {
  std::string text = fmt::format("{} ({}) of", node.name, node.op->name);
  for (Value v : node.inputs) text += fmt::format(" {}", v ? graph.type(v).shape.str() : "-");
  return text;
}

/// Looks closer only where a result differs by more than its own size excuses.
std::vector<std::string> differences(const Ran& ran, int32_t id, DType precision) {
  const Node& node = ran.graph().nodes()[id];
  const std::string implementation = implementation_of(ran.net().program(), node);
  const Tolerance tolerance = tolerance_of(precision, implementation);
  Alone alone(ran, id);
  const std::vector<Numbers> expected = alone.results(), actual = alone.actual(id);
  std::vector<double> moves(expected.size());
  bool moved = false;
  std::vector<std::string> found;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = distance(actual[i], expected[i]), size = norm_of(expected[i]);
    if (error <= tolerance.of_result * size) continue;
    for (uint32_t draw = 1; draw <= 8 && !moved; ++draw) {
      const std::vector<Numbers> others = alone.results(tolerance.rounding, draw);
      for (size_t k = 0; k < moves.size(); ++k) {
        moves[k] = std::max(moves[k], distance(others[k], expected[k]));
      }
    }
    moved = true;
    if (error <= tolerance.of_result * size + tolerance.of_moves * moves[i]) continue;
    found.push_back(
        fmt::format("{}: result {} is off by {:.3g} of {:.3g}, rounding moves it by "
                    "{:.3g}; computed by {}",
                    description(ran.graph(), node), i, error, size, moves[i], implementation));
  }
  return found;
}

}  // namespace

Graph with_all_values_named(Graph graph) {
  for (int32_t id = 0; id < static_cast<int32_t>(graph.nodes().size()); ++id) {
    const Node& node = graph.nodes()[id];
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i) {
      if (!is_source(node) && !is_private(node, i)) {
        graph.set_output(name_of_value({id, i}), {id, i});
      }
    }
  }
  return graph;
}

std::vector<std::string> differing_nodes(GraphRun& net, DType precision) {
  std::map<std::string, Numbers> states;
  for (const auto& slot : net.program().parameters()->states)
    states[slot.name] = net.get(slot.name);
  net.step().seed = kSeed;
  net.run();
  const Ran ran(net, std::move(states));
  std::vector<std::string> all;
  for (int32_t id = 0; id < static_cast<int32_t>(net.graph().nodes().size()); ++id) {
    const Node& node = net.graph().nodes()[id];
    if (is_source(node) || node.op->name == "input" || node.op->name == "fill") continue;
    for (std::string& sentence : differences(ran, id, precision))
      all.push_back(std::move(sentence));
  }
  return all;
}

}  // namespace crossbow::testing
