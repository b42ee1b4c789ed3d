#include "support/random_net.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/rng.h"
#include "graph/source.h"
#include "models/layers.h"
#include "ops/activation.h"
#include "ops/dense.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/gelu.h"
#include "ops/loss.h"
#include "ops/scale_bias.h"
#include "ops/shape_ops.h"
#include "ops/softmax.h"

namespace crossbow::testing {
namespace {

constexpr int64_t kMostElements = 3000, kMostChannels = 48, kMostProducts = 200'000;

class Builder {
 public:
  explicit Builder(uint64_t seed)
      : rng_(seed, Purpose::synthetic), net_{Graph(fmt::format("random net {}", seed)), {}} {}

  RandomNet build() {
    x_ = input(net_.graph, images(), 0, DType::f32, "images");
    say("images");
    const int layers = 14 + static_cast<int>(rng_.below(8));
    while (layers_ < layers) add_layer();
    finish();
    return std::move(net_);
  }

 private:
  int64_t pick(std::initializer_list<int64_t> values) {
    return values.begin()[rng_.below(static_cast<uint32_t>(values.size()))];
  }
  int64_t between(int64_t low, int64_t high) {
    return low + rng_.below(static_cast<uint32_t>(high - low + 1));
  }
  bool one_in(uint32_t n) { return rng_.below(n) == 0; }

  Shape images() {
    const auto side = [&] { return one_in(6) ? 1 : between(2, 13); };
    const int64_t h = side(), w = side();
    return {pick({1, 2, 3, 4, 5}), pick({1, 2, 3, 3, 5, 16, 17}), h, w};
  }
  const Shape& shape() const { return x_.shape(); }
  void say(const std::string& layer) {
    net_.text += fmt::format("  {} -> {}\n", layer, shape().str());
    earlier_.push_back(x_);
    ++layers_;
  }
  Tensor weights(Shape shape, const char* name) {
    return parameter(net_.graph, shape, Initialiser::he(Initialiser::Fan::in), name);
  }
  Tensor per_channel(float low, float high, const char* name) {
    return parameter(net_.graph, {shape()[1]}, Initialiser::uniform(low, high), name);
  }

  void add_layer() {
    switch (rng_.below(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return convolve();
      case 5:
      case 6:
      case 7:
        return normalise();
      case 8:
      case 9:
      case 10:
        return activate();
      case 11:
      case 12:
      case 13:
        return residual_block();
      case 14:
      case 15:
        return pool(max_pool, "max_pool");
      case 16:
      case 17:
        return pool(avg_pool, "avg_pool");
      case 18:
      case 19:
        return join();
      case 20:
        return combine();
      case 21:
        return refold();
      case 22:
        x_ = dropout(x_, 0.25f);
        return say("dropout");
      default:
        return scale_and_shift();
    }
  }

  void convolve() {
    Conv2dAttributes a;
    int64_t outputs = pick({1, 2, 3, 5, 8, 15, 16, 16, 17, 32, 33});
    const int64_t channels = shape()[1];
    if (one_in(4)) {
      a.groups = channels % 3 == 0 && one_in(2) ? 3 : channels;
      outputs = a.groups * between(1, 2);
    }
    const Size2 kernel = both_or_each({1, 1, 2, 3, 3, 3, 5, 7});
    a.stride = both_or_each({1, 1, 1, 2, 3});
    a.dilation = both_or_each({1, 1, 1, 1, 2, 3});
    a.padding = padding_up_to(kernel);
    append_convolution(outputs, kernel, a, one_in(2));
  }

  /// As a rule one of the values for both axes.
  Size2 both_or_each(std::initializer_list<int64_t> values) {
    if (!one_in(4)) return pick(values);
    const int64_t height = pick(values);
    return {height, pick(values)};
  }
  /// As a rule the same on all sides.
  Padding padding_up_to(const Size2& most) {
    const int64_t top = between(0, most.height), left = between(0, most.width);
    switch (rng_.below(6)) {
      case 0:
        return {top, left};
      case 1: {
        const int64_t bottom = between(0, most.height);
        return {top, left, bottom, between(0, most.width)};
      }
      default:
        return std::min(top, most.width);
    }
  }

  bool append_convolution(int64_t outputs, const Size2& size, const Conv2dAttributes& a,
                          bool bias) {
    const Shape kernel{outputs, shape()[1] / a.groups, size.height, size.width};
    const auto [rows, columns] = a.axes(kernel);
    const Shape y{shape()[0], outputs, rows.positions(shape()[2]), columns.positions(shape()[3])};
    const bool fits = y.elements() > 0 && y.elements() <= kMostElements &&
                      outputs <= kMostChannels &&
                      y.elements() * kernel.elements_from(1) <= kMostProducts;
    if (!fits) return false;
    x_ = conv2d(x_, weights(kernel, "conv.weight"),
                bias ? parameter(net_.graph, {outputs}, Initialiser::uniform(-1, 1), "conv.bias")
                     : Tensor{},
                a);
    say(fmt::format("conv2d {} stride {} padding {} dilation {} groups {}{}", size.str(),
                    a.stride.str(), a.padding.str(), a.dilation.str(), a.groups,
                    bias ? " bias" : ""));
    return true;
  }

  /// Over a handful of values it would amplify rounding.
  void normalise() {
    if (shape().elements() / shape()[1] < 6) return;
    const Shape channels{shape()[1]};
    BatchNormAttributes a;
    a.epsilon = one_in(2) ? 1e-5f : 0.1f;
    x_ = batch_norm(x_, per_channel(0.5f, 1.5f, "bn.weight"), per_channel(-1, 1, "bn.bias"),
                    state(net_.graph, channels, 0.25f, "bn.mean"),
                    state(net_.graph, channels, 1.5f, "bn.var"), a);
    say("batch_norm");
  }

  void activate() {
    switch (rng_.below(7)) {
      case 0:
        x_ = gelu(x_);
        return say("gelu");
      case 1:
        x_ = gelu(x_, GeluApproximation::tanh);
        return say("gelu by tanh");
      case 2:
        x_ = sigmoid(x_);
        return say("sigmoid");
      case 3:
        x_ = tanh(x_);
        return say("tanh");
      default:
        x_ = relu(x_);
        return say("relu");
    }
  }

  void residual_block() {
    const Tensor shortcut = x_;
    const int64_t reach = between(0, 1);
    Conv2dAttributes a;
    a.padding = reach;
    if (!append_convolution(shape()[1], 2 * reach + 1, a, false)) return;
    if (one_in(2)) normalise();
    x_ = one_in(2) ? add(x_, shortcut) : add(shortcut, x_);
    say("add the block's input");
    if (one_in(2)) {
      x_ = relu(x_);
      say("relu");
    }
  }

  /// Whether there is a window, and each reads a pixel.
  static bool fits(int64_t size, const WindowAxis& axis, bool ceil_mode) {
    return pooled_size(size, axis, ceil_mode) > 0 && axis.dilation <= size;
  }

  void pool(Tensor (*make)(Tensor, const PoolAttributes&, std::string), const char* name) {
    PoolAttributes a;
    a.kernel = both_or_each({1, 2, 2, 3, 3, 5});
    a.stride = both_or_each({1, 1, 2, 2, 3});
    a.dilation = both_or_each({1, 1, 1, 2, 3});
    a.padding = padding_up_to({a.kernel.height - 1, a.kernel.width - 1});
    a.ceil_mode = one_in(3);
    a.count_include_pad = one_in(2);
    const auto [rows, columns] = a.axes();
    if (!fits(shape()[2], rows, a.ceil_mode) || !fits(shape()[3], columns, a.ceil_mode)) return;
    const Shape y{shape()[0], shape()[1], pooled_size(shape()[2], rows, a.ceil_mode),
                  pooled_size(shape()[3], columns, a.ceil_mode)};
    if (y.elements() > kMostElements) return;
    x_ = make(x_, a, {});
    say(fmt::format("{} {} stride {} padding {} dilation {}{}{}", name, a.kernel.str(),
                    a.stride.str(), a.padding.str(), a.dilation.str(), a.ceil_mode ? " ceil" : "",
                    a.count_include_pad ? " padding counts" : ""));
  }

  /// An earlier tensor that `fits`, perhaps x itself.
  template <typename F>
  Tensor earlier(const F& fits) {
    std::vector<Tensor> found;
    for (const Tensor& t : earlier_) {
      if (fits(t.shape())) found.push_back(t);
    }
    return found[rng_.below(static_cast<uint32_t>(found.size()))];
  }

  void join() {
    const Tensor other = earlier([&](Shape s) {
      s[1] = shape()[1];
      return s == shape();
    });
    const int64_t channels = shape()[1] + other.shape()[1];
    if (channels > kMostChannels || shape().elements() / shape()[1] * channels > kMostElements)
      return;
    x_ = one_in(2) ? concat({x_, other}) : concat({other, x_});
    say("concat with " + other.shape().str());
  }

  void combine() {
    const Tensor other = earlier([&](const Shape& s) { return s == shape(); });
    const bool product = one_in(2);
    x_ = product ? multiply(x_, other) : add(x_, other);
    const auto position = std::find_if(earlier_.begin(), earlier_.end(),
                                       [&](const Tensor& t) { return t.value == other.value; });
    say(fmt::format("{} line {}", product ? "multiply by" : "add",
                    position - earlier_.begin() + 1));
  }

  void refold() {
    const Shape& s = shape();
    const Shape row = one_in(2) ? Shape{s[2], s[1], s[3]} : Shape{s[1] * s[2], 1, s[3]};
    if (row[0] > kMostChannels) return;
    x_ = reshape(x_, row);
    say("reshape");
  }

  void scale_and_shift() {
    const bool scaled = one_in(2);
    x_ = scale_bias(x_, scaled ? per_channel(0.5f, 1.5f, "scale") : Tensor{},
                    per_channel(-1, 1, "bias"));
    say(scaled ? "scale_bias" : "bias");
  }

  void finish() {
    if (one_in(3)) {
      x_ = global_avg_pool(x_);
      say("global_avg_pool");
    }
    if (one_in(3)) {
      x_ = flatten(x_);
      say("flatten");
    }
    for (int64_t layers = between(1, 3); layers > 0; --layers) {
      const int64_t outputs = pick({1, 2, 7, 10, 16, 33, 64});
      const bool bias = one_in(2);
      x_ = dense(x_, weights({outputs, shape().elements_from(1)}, "fc.weight"),
                 bias ? parameter(net_.graph, {outputs}, Initialiser::uniform(-1, 1), "fc.bias")
                      : Tensor{});
      say(bias ? "dense bias" : "dense");
      if (layers == 1) break;
      if (one_in(2)) normalise();
      if (one_in(2)) activate();
    }
    if (one_in(8)) {
      x_ = softmax(x_);
      say("softmax");
    }
    net_.graph.set_output("loss", loss().value);
  }

  Tensor loss() {
    Graph& graph = net_.graph;
    const auto targets = [&] {
      if (shape().rank() == 2 && one_in(2)) {
        net_.text += "  of labels\n";
        return input(graph, {shape()[0]}, 1, DType::i32, "labels");
      }
      return input(graph, shape(), 1, DType::f32, "targets");
    };
    switch (rng_.below(3)) {
      case 0:
        net_.text += "  mean_squared_error\n";
        return mean_squared_error(x_, targets());
      case 1:
        net_.text += "  sigmoid_cross_entropy\n";
        return sigmoid_cross_entropy(x_, targets());
      default: {
        net_.text += "  softmax_cross_entropy\n";
        const Tensor labels = input(graph, {shape()[0]}, 1, DType::i32, "labels");
        graph.set_output("accuracy", accuracy(x_, labels).value);
        return softmax_cross_entropy(x_, labels, one_in(2) ? 0.1f : 0);
      }
    }
  }

  Rng rng_;
  RandomNet net_;
  Tensor x_;
  std::vector<Tensor> earlier_;  // by line of the text
  int layers_ = 0;
};

}  // namespace

RandomNet random_net(uint64_t seed) {
  return Builder(seed).build();
}

}  // namespace crossbow::testing
