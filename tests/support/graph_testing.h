// What tests of ops, kernels and plans share: a graph compiled and run with random numbers that
// depend on the seed alone, so that devices, precisions and plans can be compared.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/rng.h"
#include "device/sgd.h"
#include "graph/op.h"
#include "graph/source.h"
#include "ops/loss.h"
#include "ops/sparse_rows.h"
#include "passes/autodiff.h"
#include "plan/program.h"
#include "plan/row_major.h"
#include "support/relative_error.h"

namespace crossbow {

/// How googletest shows a test's parameter.
inline void PrintTo(const Op* op, std::ostream* out) {
  *out << op->name;
}

}  // namespace crossbow

namespace crossbow::testing {

inline CompileOptions reference(DType precision = DType::f64) {
  CompileOptions options;
  options.device = "ref";
  options.precision = precision;
  return options;
}

inline CompileOptions cpu(DType precision = DType::f32, int threads = 1) {
  CompileOptions options;
  options.precision = precision;
  options.threads = threads;
  return options;
}

inline CompileOptions on_device(const std::string& name, DType precision = DType::f32) {
  CompileOptions options;
  options.device = name;
  options.precision = precision;
  return options;
}

/// Every number exact in bf16, so that a bf16 program starts from what the reference starts from.
enum class Values { f32, bf16 };

/// With a slot and every coefficient in use.
inline Optimizer some_optimizer() {
  return make_sgd({.momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
}

/// A replica of the host where a device's programs find it: there, or in a copy.
class OnDevice {
 public:
  OnDevice(const Replica& host, Device& device) : device_(device), view_(host) {
    if (device.is_host()) return;
    const auto copy = [&](auto& address, const Buffer& from) {
      address = copies_.emplace_back(&from, device.allocate(from.size())).second.data();
    };
    copy(view_.parameters, host.parameters);
    view_.next_parameters = view_.parameters;
    copy(view_.gradients, host.gradients);
    copy(view_.states, host.states);
    copy(view_.frozen, host.frozen);
    for (size_t i = 0; i < host.slots.size(); ++i) copy(view_.slots[i], host.slots[i]);
  }
  const ReplicaView& view() const { return view_; }
  void bring() const {
    for (const auto& [host, copy] : copies_) {
      device_.copy_now(copy.data(), host->data(), copy.size());
    }
  }
  void fetch() const {
    for (const auto& [host, copy] : copies_) {
      device_.copy_now(host->data(), copy.data(), copy.size());
    }
  }

 private:
  Device& device_;
  ReplicaView view_;
  std::vector<std::pair<const Buffer*, Buffer>> copies_;
};

/// A compiled graph with a replica, an arena and inputs of its own.
class GraphRun {
 public:
  explicit GraphRun(const Graph& graph, const CompileOptions& options = reference(),
                    Values values = Values::f32, uint64_t seed = 1)
      : graph_(graph),
        device_(options.device),
        optimizer_(options.update.value_or(some_optimizer())),
        program_(Program::compile(graph, options)),
        replica_(*program_->parameters(), /*with_gradients=*/true, optimizer_.slots.size()),
        there_(replica_, find_device(device_)),
        workspace_(find_device(device_), program_->arena_bytes(), program_->input_bytes()),
        execution_(program_, there_.view(), workspace_) {
    initialise(*program_->parameters(), replica_, seed);
    if (values == Values::bf16) round_parameters();
    for (int32_t id : graph.find("input")) feed_random(graph.nodes()[id], values, seed);
    for (int32_t id : graph.find("sparse_rows")) feed_sparse(graph.nodes()[id], values, seed);
    step_.seed = seed;  // and a position that makes every part of dropout's key count
    step_.epoch = 2;
    step_.first_sample = 48;
  }

  const Graph& graph() const { return graph_; }
  const Program& program() const { return *program_; }
  const Replica& replica() const { return replica_; }
  Step& step() { return step_; }

  void run() {
    omp_set_num_threads(program_->threads());
    there_.bring();
    execution_.run(step_);
    workspace_.queue().finish();
    there_.fetch();
  }
  void run_timed(std::span<double> seconds) {
    omp_set_num_threads(program_->threads());
    execution_.run_timed(step_, seconds);
  }
  /// The optimizer's step on the gradient that the last run left.
  void update() {
    const Replica& r = replica_;
    vector_math(device_, program_->parameters()->dtype)
        .update(*optimizer_.rule, step_.update,
                {r.parameters.data(), r.gradients.data(), addresses_of(r.slots), nullptr,
                 r.parameters.data()},
                program_->parameters()->parameter_elements);
  }
  std::vector<double> values(const std::string& name) const { return execution_.values(name); }
  double scalar(const std::string& name) const { return execution_.scalar(name); }

  /// d(loss)/d(parameter), row-major.
  std::vector<double> gradient(const std::string& parameter) const {
    return read(parameter, replica_.gradients);
  }
  /// Those of all parameters, one after the other.
  std::vector<double> gradients() const {
    std::vector<double> all;
    for (const std::string& name : trained_names()) {
      const std::vector<double> one = gradient(name);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  /// A parameter or state, row-major.
  std::vector<double> get(const std::string& name) const { return read(name, buffer_of(name)); }
  void set(const std::string& name, std::span<const double> row_major) {
    const auto& slot = slot_of(name);
    write_tensor(slot.layout, address(slot, buffer_of(name)), row_major);
  }
  void feed(size_t slot, std::vector<float> numbers) {
    numbers_[slot] = std::move(numbers);
    step_.inputs[slot] = numbers_[slot].data();
  }
  void feed(size_t slot, std::vector<int32_t> labels) {
    labels_[slot] = std::move(labels);
    step_.inputs[slot] = labels_[slot].data();
  }
  void feed(size_t slot, std::vector<uint8_t> pixels) {
    pixels_[slot] = std::move(pixels);
    step_.inputs[slot] = pixels_[slot].data();
  }

  std::vector<std::string> parameter_names() const {
    std::vector<std::string> names;
    for (const auto& slot : program_->parameters()->parameters) names.push_back(slot.name);
    return names;
  }
  /// Those with a gradient.
  std::vector<std::string> trained_names() const {
    std::vector<std::string> names = parameter_names();
    std::erase_if(names, [&](const auto& n) { return !graph_.outputs().count("gradient:" + n); });
    return names;
  }

 private:
  using Slot = ParameterLayout::Slot;

  const Slot& slot_of(const std::string& name) const {
    const Slot* slot = program_->parameters()->find(name);
    if (!slot) throw std::out_of_range("no parameter " + name);
    return *slot;
  }
  const Buffer& buffer_of(const std::string& name) const {
    const ParameterLayout& layout = *program_->parameters();
    const auto is_among = [&](const std::vector<Slot>& slots) {
      return std::ranges::any_of(slots, [&](const Slot& s) { return s.name == name; });
    };
    if (is_among(layout.states)) return replica_.states;
    return is_among(layout.parameters) ? replica_.parameters : replica_.frozen;
  }
  std::byte* address(const Slot& slot, const Buffer& buffer) const {
    return buffer.data() + slot.offset * size_of(program_->parameters()->dtype);
  }
  std::vector<double> read(const std::string& name, const Buffer& buffer) const {
    const Slot& slot = slot_of(name);
    std::vector<double> row_major(slot.layout.shape.elements());
    read_tensor(slot.layout, address(slot, buffer), std::span<double>(row_major));
    return row_major;
  }

  void round_parameters() {
    for (const std::string& name : parameter_names()) {
      std::vector<double> row_major = get(name);
      for (double& x : row_major) x = bf16(static_cast<float>(x));
      set(name, row_major);
    }
  }

  /// Slot 0 (images) in [-1, 1), slot 1 (targets) in [0, 1) or labels.
  void feed_random(const Node& node, Values values, uint64_t seed) {
    const auto slot = static_cast<size_t>(node.attrs<InputAttributes>().slot);
    const TensorType& type = node.outputs[0];
    const auto count = static_cast<size_t>(type.shape.elements());
    Rng rng(seed, Purpose::synthetic, static_cast<uint32_t>(slot));
    if (type.dtype == DType::i32) {
      std::vector<int32_t> labels(count);
      const auto classes = static_cast<uint32_t>(classes_of(node));
      for (int32_t& label : labels) label = static_cast<int32_t>(rng.below(classes));
      feed(slot, std::move(labels));
      return;
    }
    if (node.attrs<InputAttributes>().normalisation) {
      std::vector<uint8_t> pixels(count);
      for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(rng.below(256));
      feed(slot, std::move(pixels));
      return;
    }
    std::vector<float> numbers(count);
    for (float& x : numbers) {
      x = rng.uniform(slot == 0 ? -1.0f : 0.0f, 1.0f);
      if (values == Values::bf16) x = bf16(x);
    }
    feed(slot, std::move(numbers));
  }

  /// Every third row is empty, and the first one as long as there is room; all begin behind a gap,
  /// as the rows of a part of a batch do.
  void feed_sparse(const Node& node, Values values, uint64_t seed) {
    const auto& a = node.attrs<SparseRowsAttributes>();
    const int64_t most = a.room->of(1);
    Rng rng(seed, Purpose::synthetic, static_cast<uint32_t>(kValues));
    std::vector<float> numbers;
    std::vector<int32_t> columns, extents;
    constexpr int32_t kGap = 7;
    for (int64_t row = 0; row < a.rows; ++row) {
      extents.push_back(kGap + static_cast<int32_t>(columns.size()));
      int64_t count = row == 0       ? most
                      : row % 3 == 1 ? 0
                                     : 1 + rng.below(static_cast<uint32_t>(most));
      for (int64_t c = 0; c < a.features; ++c) {  // each set of columns is as likely
        if (rng.below(static_cast<uint32_t>(a.features - c)) >= count) continue;
        --count;
        columns.push_back(static_cast<int32_t>(c));
        numbers.push_back(rng.uniform(-1.0f, 1.0f));
        if (values == Values::bf16) numbers.back() = bf16(numbers.back());
      }
      extents.push_back(kGap + static_cast<int32_t>(columns.size()));
    }
    columns.resize(static_cast<size_t>(a.room->of(a.rows)), -1);  // never read
    numbers.resize(columns.size(), NAN);
    feed(kValues, std::move(numbers));
    feed(kColumns, std::move(columns));
    feed(kExtents, std::move(extents));
  }

  /// Labels belong to the logits that are the first input of whatever reads them. A single logit
  /// stands for two classes, except in a softmax.
  int64_t classes_of(const Node& labels) const {
    for (const Node& node : graph_.nodes()) {
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        if (node.inputs[i] && &graph_.node(node.inputs[i]) == &labels) {
          const int64_t columns = graph_.type(node.inputs[0]).shape[1];
          const bool softmax = node.op->name == "accuracy" || node.op->name.starts_with("softmax");
          return columns == 1 && !softmax ? 2 : columns;
        }
      }
    }
    return 1;
  }

  const Graph graph_;
  const std::string device_;
  const Optimizer optimizer_;
  std::shared_ptr<const Program> program_;
  Replica replica_;  // the host's
  OnDevice there_;
  Workspace workspace_;
  Execution execution_;
  std::array<std::vector<float>, kFields> numbers_;
  std::array<std::vector<int32_t>, kFields> labels_;
  std::array<std::vector<uint8_t>, kFields> pixels_;
  Step step_;
};

inline bool same_bytes(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// The case's graph with outputs "y" and "loss": y itself if it is a scalar, else its mean squared
/// distance from random numbers, so that every element counts differently.
inline Graph forward_graph(const Case& c) {
  Graph graph(c.name);
  CaseBuilder builder(graph);
  const Tensor y = c.build(builder);
  graph.set_output("y", y.value);
  const Tensor loss = y.shape().rank() == 0 ? y : mean_squared_error(y, input(graph, y.shape(), 0));
  graph.set_output("loss", loss.value);
  return graph;
}

/// With its gradients, if it has any.
inline Graph joint_graph(const Op& op, const Case& c) {
  Graph graph = forward_graph(c);
  if (op.gradient && c.differentiable) differentiate(graph, graph.output("loss"));
  return graph;
}

inline std::vector<const Op*> ops_with_cases() {
  std::vector<const Op*> ops = all_ops();
  std::erase_if(ops, [](const Op* op) { return !op->cases; });
  return ops;
}

/// `INSTANTIATE_TEST_SUITE_P(Ops, X, ::testing::ValuesIn(ops_with_cases()), op_name)`
inline std::string op_name(const ::testing::TestParamInfo<const Op*>& info) {
  return std::string(info.param->name);
}

}  // namespace crossbow::testing
