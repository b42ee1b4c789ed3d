// The CPU backend's own loops against a plain copy of memory. Rates are of the bytes that a pass
// must move at least; `copy` is the machine's figure to compare with.
#include <benchmark/benchmark.h>

#include <cstring>
#include <map>

#include "core/rng.h"
#include "device/buffer.h"
#include "device/device.h"
#include "device/sgd.h"
#include "device/vector_math.h"
#include "graph/op.h"
#include "graph/source.h"
#include "kernels/kernel.h"
#include "ops/activation.h"
#include "ops/batch_norm.h"
#include "ops/dropout.h"
#include "passes/autodiff.h"

namespace crossbow {
namespace {

/// Memory filled with random values.
Buffer random_memory(const Layout& layout) {
  Buffer buffer(layout.bytes());
  Rng rng(1, Purpose::synthetic);
  for (int64_t i = 0; i < layout.elements(); ++i) {
    const float value = rng.uniform(-1, 1);
    if (layout.dtype == DType::f32) buffer.as<float>()[i] = value;
    if (layout.dtype == DType::bf16) buffer.as<bf16>()[i] = value;
  }
  return buffer;
}

/// One node's kernel, bound to `given` memory (by operand) or else to its own.
class Bench {
 public:
  struct Given {
    std::map<size_t, void*> inputs, outputs;
  };
  /// `offered`: of all inputs.
  Bench(const Graph& graph, const Node& node, const std::vector<std::optional<Layout>>& offered,
        DType precision, const Given& given = {}) {
    const std::vector<std::optional<Layout>> required(node.outputs.size());
    const PreparedKernel kernel = KernelRegistry::of("cpu").find(node.op->name)(
        {graph, node, offered, required, find_device("cpu"), precision, /*threads=*/1});
    Operands operands;
    for (size_t i = 0; i < offered.size(); ++i) {
      operands.inputs.push_back(offered[i] ? memory(kernel.inputs[i], given.inputs, i) : nullptr);
    }
    for (size_t i = 0; i < kernel.outputs.size(); ++i) {
      operands.outputs.push_back(memory(kernel.outputs[i], given.outputs, i));
    }
    operands.scratch = buffers_.emplace_back(kernel.scratch_bytes).data();
    call_ = kernel.bind(operands);
  }

  void run() const { call_(Step{}); }
  /// Of all inputs and outputs.
  int64_t bytes() const { return bytes_; }

 private:
  void* memory(const Layout& layout, const std::map<size_t, void*>& given, size_t operand) {
    bytes_ += static_cast<int64_t>(layout.bytes());
    const auto it = given.find(operand);
    if (it != given.end()) return it->second;
    return buffers_.emplace_back(random_memory(layout)).data();
  }

  std::vector<Buffer> buffers_;
  Call call_;
  int64_t bytes_ = 0;
};

enum class Arrangement { blocked, channels_last };

/// What all layers' gradients pass through, one after the other.
struct GradientMemory {
  Buffer dx{64 << 20}, dresidual{64 << 20};
};

/// Batch norm with ReLU, and its gradient, whose dx takes the place of dy.
struct BatchNormPair {
  Buffer x, y;
  Bench forward, backward;
};

std::unique_ptr<BatchNormPair> batch_norm_pair(const Shape& shape, DType dtype, Arrangement how,
                                               bool residual, const GradientMemory& gradients) {
  Graph graph;
  const Shape channels{shape[1]};
  const auto vector = [&](const char* name) {
    return parameter(graph, channels, Initialiser::constant(1), name);
  };
  auto attributes = std::make_shared<BatchNormAttributes>();
  attributes->activation = Activation::relu;
  const Tensor x = parameter(graph, shape, Initialiser::constant(1), "x");
  const Tensor y =
      graph.append(find_op("batch_norm"),
                   {x.value, vector("scale").value, vector("shift").value,
                    state(graph, channels, 0, "mean").value,
                    state(graph, channels, 1, "variance").value, residual ? x.value : Value{}},
                   attributes);
  GradientContext context(graph, y.value.node, {x.value, {}, {}}, std::vector<bool>(6, true));
  find_op("batch_norm").gradient(context);
  const Node first = graph.node(y.value), second = graph.nodes().back();

  const Layout layout = how == Arrangement::blocked ? Layout::channel_blocked(shape, dtype, 16)
                                                    : Layout::channels_last(shape, dtype);
  const auto offered = [&](const Node& node) {
    std::vector<std::optional<Layout>> result;
    for (Value v : node.inputs) {
      if (!v)
        result.emplace_back();
      else if (graph.type(v).shape == shape)
        result.emplace_back(layout);
      else
        result.emplace_back(Layout::plain(channels, DType::f32));
    }
    return result;
  };
  Buffer x_memory = random_memory(layout), y_memory(layout.bytes());
  void *const px = x_memory.data(), *const py = y_memory.data();
  return std::unique_ptr<BatchNormPair>(
      new BatchNormPair{std::move(x_memory), std::move(y_memory),
                        Bench(graph, first, offered(first), dtype, {{{0, px}}, {{0, py}}}),
                        Bench(graph, second, offered(second), dtype,
                              {{{0, gradients.dx.data()}, {1, px}, {6, py}},
                               {{0, gradients.dx.data()}, {3, gradients.dresidual.data()}}})});
}

/// All batch norms of resnet-32, forward and then backward, each with memory of its own, as a
/// training step meets them. Reports milliseconds an image.
void resnet32_batch_norms(benchmark::State& state, DType dtype, Arrangement how) {
  const int64_t batch = state.range(0);
  const GradientMemory gradients;
  std::vector<std::unique_ptr<BatchNormPair>> layers;
  for (int64_t stage = 0; stage < 3; ++stage) {
    const Shape shape{batch, 16 << stage, 32 >> stage, 32 >> stage};
    for (int i = 0; i < 10 + (stage == 0); ++i) {
      layers.push_back(batch_norm_pair(shape, dtype, how, i % 2 == 1, gradients));
    }
  }
  int64_t bytes = 0;
  for (const auto& layer : layers) bytes += layer->forward.bytes() + layer->backward.bytes();
  for (auto _ : state) {
    for (const auto& layer : layers) layer->forward.run();
    for (size_t i = layers.size(); i-- > 0;) layers[i]->backward.run();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.counters["ms/image"] =
      benchmark::Counter(1e-3 * static_cast<double>(state.iterations() * batch),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(resnet32_batch_norms, f32_blocked, DType::f32, Arrangement::blocked)
    ->Arg(1)
    ->Arg(4)
    ->Arg(16);
BENCHMARK_CAPTURE(resnet32_batch_norms, f32_channels_last, DType::f32, Arrangement::channels_last)
    ->Arg(16);
BENCHMARK_CAPTURE(resnet32_batch_norms, bf16_blocked, DType::bf16, Arrangement::blocked)
    ->Arg(1)
    ->Arg(16);
BENCHMARK_CAPTURE(resnet32_batch_norms, bf16_channels_last, DType::bf16, Arrangement::channels_last)
    ->Arg(16);

void one_batch_norm(benchmark::State& state, DType dtype, bool backward) {
  const GradientMemory gradients;
  const int64_t batch = state.range(0), stage = state.range(1);
  const auto layer = batch_norm_pair({batch, 16 << stage, 32 >> stage, 32 >> stage}, dtype,
                                     Arrangement::blocked, false, gradients);
  const Bench& bench = backward ? layer->backward : layer->forward;
  for (auto _ : state) bench.run();
  state.SetBytesProcessed(state.iterations() * bench.bytes());
}
BENCHMARK_CAPTURE(one_batch_norm, f32_forward, DType::f32, false)
    ->ArgsProduct({{1, 16}, {0, 1, 2}});
BENCHMARK_CAPTURE(one_batch_norm, f32_backward, DType::f32, true)
    ->ArgsProduct({{1, 16}, {0, 1, 2}});
BENCHMARK_CAPTURE(one_batch_norm, bf16_forward, DType::bf16, false)
    ->ArgsProduct({{1, 16}, {0, 1, 2}});
BENCHMARK_CAPTURE(one_batch_norm, bf16_backward, DType::bf16, true)
    ->ArgsProduct({{1, 16}, {0, 1, 2}});

void copy(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0)) << 10;
  const Buffer from(bytes), to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0) << 10);
}
BENCHMARK(copy)->Arg(128)->Arg(512)->Arg(10 << 10)->Arg(64 << 10);

void sgd_step(benchmark::State& state) {
  const int64_t n = state.range(0);
  const size_t bytes = static_cast<size_t>(n) * 4;
  const Buffer w(bytes), g(bytes), v(bytes);
  const Optimizer sgd = make_sgd({0.9, 1e-4});
  for (auto _ : state) {
    vector_math("cpu", DType::f32)
        .update(*sgd.rule, sgd.at(0.1), {w.data(), g.data(), {v.data()}, nullptr, w.data()}, n);
  }
  state.SetBytesProcessed(state.iterations() * n * 20);
}
BENCHMARK(sgd_step)->Arg(468826)->Arg(1111946)->Arg(15038116);

void squared_norm(benchmark::State& state) {
  const int64_t n = state.range(0);
  const Buffer x(static_cast<size_t>(n) * 4);
  for (auto _ : state) {
    double sum = 0;
    vector_math("cpu", DType::f32).squared_norm(x.data(), n, &sum);
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(state.iterations() * n * 4);
}
BENCHMARK(squared_norm)->Arg(468826)->Arg(15038116);

void elementwise(benchmark::State& state, Tensor (*make)(Tensor), DType dtype) {
  Graph graph;
  const Shape shape{16, 1024};
  const Tensor y = make(parameter(graph, shape, Initialiser::constant(1), "x"));
  const Node node = graph.node(y.value);
  const Bench bench(graph, node, {Layout::plain(shape, dtype)}, dtype);
  for (auto _ : state) bench.run();
  state.SetItemsProcessed(state.iterations() * shape.elements());
}
BENCHMARK_CAPTURE(
    elementwise, relu, [](Tensor x) { return relu(x); }, DType::f32);
BENCHMARK_CAPTURE(
    elementwise, sigmoid, [](Tensor x) { return sigmoid(x); }, DType::f32);
BENCHMARK_CAPTURE(
    elementwise, sigmoid_bf16, [](Tensor x) { return sigmoid(x); }, DType::bf16);
BENCHMARK_CAPTURE(
    elementwise, tanh, [](Tensor x) { return tanh(x); }, DType::f32);
BENCHMARK_CAPTURE(
    elementwise, dropout, [](Tensor x) { return dropout(x, 0.5f); }, DType::f32);

}  // namespace
}  // namespace crossbow

BENCHMARK_MAIN();
