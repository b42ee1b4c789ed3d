// Convolution, pooling, batch norm, local response norm, GELU, softmax and its loss agree with
// ONNX's definitions. The expected values come from scripts/make_onnx_cases.py.
#include <fstream>
#include <nlohmann/json.hpp>

#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/gelu.h"
#include "ops/local_response_norm.h"
#include "ops/pool.h"
#include "ops/softmax.h"
#include "support/graph_testing.h"
#include "support/paths.h"

namespace crossbow::testing {
namespace {

using Json = nlohmann::json;

Shape shape_of(const Json& array) {
  return Shape(std::span<const int64_t>(array.at("shape").get<std::vector<int64_t>>()));
}

std::vector<double> values_of(const Json& array) {
  return array.at("values").get<std::vector<double>>();
}

/// A graph with the case's op alone: its inputs are parameters, or states where training would
/// change them, of the names that they have in the file.
class CaseGraph {
 public:
  explicit CaseGraph(const Json& c) : case_(c), attributes_(c.at("attributes")) {}

  Graph build() {
    const std::string op = case_.at("op");
    if (op == "Conv") add("y", convolution());
    if (op == "MaxPool") add("y", max_pool(in("x"), pooling()));
    if (op == "AveragePool") add("y", avg_pool(in("x"), pooling()));
    if (op == "BatchNormalization") add_batch_norm();
    if (op == "LRN") add("y", local_response_norm(in("x"), response()));
    if (op == "Gelu") add("y", gelu(in("x"), approximation()));
    if (op == "Softmax") add("y", softmax(in("x")));
    if (op == "SoftmaxCrossEntropyLoss") add_cross_entropy();
    return graph_;
  }

 private:
  Tensor in(const std::string& name) {
    if (!case_.at("inputs").contains(name)) return {};
    const Shape shape = shape_of(case_.at("inputs").at(name));
    return parameter(graph_, shape, Initialiser::constant(0), name);
  }

  void add(const std::string& name, Tensor y) { graph_.set_output(name, y.value); }

  LocalResponseNormAttributes response() const {
    LocalResponseNormAttributes a;
    a.size = attributes_.at("size");
    a.alpha = attributes_.at("alpha");
    a.beta = attributes_.at("beta");
    a.k = attributes_.at("bias");
    return a;
  }

  Size2 pair(const char* name) const {
    const Json& v = attributes_.at(name);
    return {v[0].get<int64_t>(), v[1].get<int64_t>()};
  }
  Padding padding() const {
    const Json& v = attributes_.at("pads");
    return {v[0].get<int64_t>(), v[1].get<int64_t>(), v[2].get<int64_t>(), v[3].get<int64_t>()};
  }

  Tensor convolution() {
    Conv2dAttributes a;
    a.stride = pair("strides");
    a.padding = padding();
    a.dilation = pair("dilations");
    a.groups = attributes_.at("group");
    const Tensor x = in("x"), weights = in("weights");
    return conv2d(x, weights, in("bias"), a);
  }

  PoolAttributes pooling() const {
    PoolAttributes a;
    a.kernel = pair("kernel_shape");
    a.stride = pair("strides");
    a.padding = padding();
    a.dilation = pair("dilations");
    a.ceil_mode = attributes_.at("ceil_mode") != 0;
    a.count_include_pad = attributes_.value("count_include_pad", 0) != 0;
    return a;
  }

  GeluApproximation approximation() const {
    const bool tanh = attributes_.at("approximate") == "tanh";
    return tanh ? GeluApproximation::tanh : GeluApproximation::none;
  }

  void add_batch_norm() {
    BatchNormAttributes a;
    a.training = attributes_.at("training_mode") != 0;
    a.momentum = attributes_.value("momentum", 0.9f);
    a.epsilon = attributes_.value("epsilon", 1e-5f);
    const Tensor x = in("x"), scale = in("scale"), shift = in("shift");
    const Shape channels = scale.shape();
    const Tensor mean = state(graph_, channels, 0, "mean");
    const Tensor variance = state(graph_, channels, 1, "variance");
    add("y", batch_norm(x, scale, shift, mean, variance, a));
  }

  void add_cross_entropy() {
    const Tensor logits = in("logits");
    const Shape rows{logits.shape()[0]};
    add("loss", softmax_cross_entropy(logits, input(graph_, rows, 1, DType::i32, "labels")));
  }

  const Json& case_;
  const Json& attributes_;
  Graph graph_;
};

void feed_inputs(const Json& inputs, GraphRun& run) {
  for (const auto& [name, array] : inputs.items()) {
    if (name == "labels") {
      run.feed(1, array.at("values").get<std::vector<int32_t>>());
    } else {
      run.set(name, values_of(array));
    }
  }
}

/// A result of the run; ONNX returns the running statistics, we change them in place.
std::vector<double> result_of(const GraphRun& run, const std::string& name) {
  if (name == "running_mean") return run.get("mean");
  if (name == "running_variance") return run.get("variance");
  return run.values(name);
}

class OnnxTest : public ::testing::TestWithParam<const char*> {
 protected:
  /// Runs every case of the op on one device.
  void check(const CompileOptions& options, double tolerance) {
    std::ifstream file(test_data_folder() + "/onnx/cases.json");
    const Json json = Json::parse(file);
    int checked = 0;
    for (const Json& c : json.at("cases")) {
      if (c.at("op") != GetParam()) continue;
      SCOPED_TRACE(c.at("name").get<std::string>());
      GraphRun run(CaseGraph(c).build(), options);
      feed_inputs(c.at("inputs"), run);
      run.run();
      for (const auto& [name, expected] : c.at("outputs").items()) {
        if (run.graph().outputs().count(name)) {
          EXPECT_EQ(run.graph().type(run.graph().output(name)).shape, shape_of(expected));
        }
        EXPECT_LE(relative_error(result_of(run, name), values_of(expected)), tolerance) << name;
        ++checked;
      }
    }
    EXPECT_GT(checked, 0);
  }
};

TEST_P(OnnxTest, ReferenceAgrees) {
  // ONNX defines Gelu by a function whose constants are f32.
  check(reference(), GetParam() == std::string_view("Gelu") ? 1e-8 : 1e-10);
}

TEST_P(OnnxTest, CpuAgrees) {
  check(cpu(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Ops, OnnxTest,
                         ::testing::Values("Conv", "MaxPool", "AveragePool", "BatchNormalization",
                                           "LRN", "Gelu", "Softmax", "SoftmaxCrossEntropyLoss"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace crossbow::testing
