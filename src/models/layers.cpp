#include "models/layers.h"

#include <algorithm>

#include "core/error.h"
#include "ops/dense.h"
#include "ops/scale_bias.h"
#include "ops/sparse_dense.h"
#include "ops/sparse_rows.h"

namespace crossbow {
namespace {

/// The name that the layer's node will get, so that its parameters can share it.
std::string layer_name(const Graph& graph, const std::string& asked, const char* kind) {
  return graph.free_name(asked.empty() ? kind : asked);
}

/// An own node, which fusion merges into the layer's where the device gains by it.
Tensor add_bias(Tensor y, const Initialiser& init, const std::string& layer) {
  const Tensor bias = parameter(*y.graph, {y.shape()[1]}, init, layer + ".bias");
  return scale_bias(y, {}, bias, layer + ".add_bias");
}

PoolAttributes window(const Size2& kernel, const Size2& stride, const Padding& padding) {
  PoolAttributes a;
  a.kernel = kernel;
  a.stride = stride == Size2(0) ? kernel : stride;
  a.padding = padding;
  return a;
}

}  // namespace

Tensor conv2d(Tensor x, const Conv2d& layer, std::string name) {
  name = layer_name(*x.graph, name, "conv2d");
  // Whatever else does not fit, the op's own rule reports.
  const int64_t groups = std::max<int64_t>(layer.groups, 1);
  if (x.shape().rank() == 4 && x.shape()[1] % groups != 0) {
    fail("layer {}: {} groups do not divide the {} channels of x {}", name, groups, x.shape()[1],
         x.shape().str());
  }
  const int64_t channels = x.shape()[1] / groups;
  const Shape shape{layer.filters, channels, layer.kernel.height, layer.kernel.width};
  const Tensor weight = parameter(*x.graph, shape, layer.weight_init, name + ".weight");
  Conv2dAttributes a;
  a.stride = layer.stride;
  a.padding = layer.padding;
  a.dilation = layer.dilation;
  a.groups = layer.groups;
  const Tensor y = conv2d(x, weight, {}, a, name);
  return layer.bias ? add_bias(y, layer.bias_init, name) : y;
}

Tensor dense(Tensor x, const Dense& layer, std::string name) {
  name = layer_name(*x.graph, name, "dense");
  const Shape shape{layer.outputs, features_of(x)};
  const Tensor weight = parameter(*x.graph, shape, layer.weight_init, name + ".weight");
  if (sparse_shape(x)) {
    const Tensor bias = layer.bias
                            ? parameter(*x.graph, {layer.outputs}, layer.bias_init, name + ".bias")
                            : Tensor{};
    return sparse_dense(x, weight, bias, name);
  }
  const Tensor y = dense(x, weight, {}, name);
  return layer.bias ? add_bias(y, layer.bias_init, name) : y;
}

Tensor batch_norm(Tensor x, const BatchNorm& layer, std::string name) {
  name = layer_name(*x.graph, name, "batch_norm");
  Graph& graph = *x.graph;
  const Shape channels{x.shape()[1]};
  const Tensor scale = parameter(graph, channels, Initialiser::constant(1), name + ".weight");
  const Tensor shift = parameter(graph, channels, Initialiser::constant(0), name + ".bias");
  const Tensor mean = state(graph, channels, 0, name + ".running_mean");
  const Tensor variance = state(graph, channels, 1, name + ".running_var");
  BatchNormAttributes a;
  a.epsilon = layer.epsilon;
  a.momentum = layer.momentum;
  return batch_norm(x, scale, shift, mean, variance, a, name);
}

Tensor max_pool(Tensor x, Size2 kernel, Size2 stride, Padding padding) {
  return max_pool(x, window(kernel, stride, padding));
}

Tensor avg_pool(Tensor x, Size2 kernel, Size2 stride, Padding padding) {
  return avg_pool(x, window(kernel, stride, padding));
}

}  // namespace crossbow
