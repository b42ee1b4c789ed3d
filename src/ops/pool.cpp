#include "ops/pool.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

/// "3x3", or "3x3 of dilation 2".
std::string kernel_text(const PoolAttributes& a) {
  const std::string size = fmt::format("{}x{}", a.kernel.height, a.kernel.width);
  return a.dilation == Size2(1) ? size : size + " of dilation " + a.dilation.str();
}

/// Whether each of that many windows reads a pixel of the image.
bool all_read_pixels(const WindowAxis& axis, int64_t size, int64_t windows) {
  for (int64_t i = 0; i < windows; ++i) {
    int64_t tap = 0;
    while (tap < axis.kernel && axis.start(i) + tap * axis.dilation < 0) ++tap;
    if (tap == axis.kernel || axis.start(i) + tap * axis.dilation >= size) return false;
  }
  return true;
}

Shape pooled_shape(const Node& node, std::span<const TensorType> in) {
  const auto& a = node.attrs<PoolAttributes>();
  expect_rank(in[0], 4, "x", "[N, C, H, W]");
  const Shape& x = in[0].shape;
  const WindowAxes axes = a.axes();
  if (!axes[0].is_valid() || !axes[1].is_valid()) {
    fail("kernel {}x{}, stride {} and dilation {} must be at least 1 and padding {} at least 0",
         a.kernel.height, a.kernel.width, a.stride.str(), a.dilation.str(), a.padding.str());
  }
  Shape y{x[0], x[1], 0, 0};
  for (int d : {2, 3}) {
    y[d] = pooled_size(x[d], axes[d - 2], a.ceil_mode);
    if (y[d] < 1) {
      fail("the pooling kernel {} is larger than x {} with padding {}", kernel_text(a), x.str(),
           a.padding.str());
    }
    if (!all_read_pixels(axes[d - 2], x[d], y[d])) {
      fail("with padding {} a window of the kernel {} would read nothing of x {}", a.padding.str(),
           kernel_text(a), x.str());
    }
  }
  return y;
}

std::vector<TensorType> infer_max(const Node& node, std::span<const TensorType> in) {
  const Shape y = pooled_shape(node, in);
  return {{y}, {y, DType::i32}};
}

std::vector<TensorType> infer_avg(const Node& node, std::span<const TensorType> in) {
  return {{pooled_shape(node, in)}};
}

std::vector<TensorType> infer_grad(const Node& node, std::span<const TensorType>) {
  return {{node.attrs<PoolGradAttributes>().shape}};
}

std::vector<Case> max_cases();
std::vector<Case> avg_cases();
void max_gradient(GradientContext& c);
void avg_gradient(GradientContext& c);

const Op& kMaxPool = register_op(
    {.name = "max_pool", .infer = infer_max, .gradient = max_gradient, .cases = max_cases});
const Op& kAvgPool = register_op(
    {.name = "avg_pool", .infer = infer_avg, .gradient = avg_gradient, .cases = avg_cases});
const Op& kMaxPoolGrad = register_op({.name = "max_pool_grad", .infer = infer_grad});
const Op& kAvgPoolGrad = register_op({.name = "avg_pool_grad", .infer = infer_grad});

void set_gradient(GradientContext& c, const Op& op, std::vector<Value> inputs) {
  auto a = std::make_shared<PoolGradAttributes>();
  static_cast<PoolAttributes&>(*a) = c.node().attrs<PoolAttributes>();
  a->shape = c.input(0).shape();
  c.set(0, c.graph().append(op, std::move(inputs), a));
}

void max_gradient(GradientContext& c) {
  set_gradient(c, kMaxPoolGrad, {c.output_gradient().value, c.output(1).value});
}

void avg_gradient(GradientContext& c) {
  set_gradient(c, kAvgPoolGrad, {c.output_gradient().value});
}

struct Sample {
  const char* name;
  Shape x;
  Size2 kernel, stride;
  Padding padding;
  bool ceil_mode;
  Size2 dilation = 1;
  bool small = true;
};

constexpr bool kFloor = false, kCeil = true;

std::vector<Sample> samples() {
  return {
      {"2x2", {2, 5, 6, 6}, 2, 2, 0, kFloor},
      {"2x2, 16 channels", {2, 16, 4, 4}, 2, 2, 0, kFloor},
      {"2x2 that leaves a border unread", {2, 3, 7, 5}, 2, 2, 0, kFloor},
      {"2x2 ceil", {2, 3, 7, 5}, 2, 2, 0, kCeil},
      {"3x3 stride 2, overlapping", {2, 4, 7, 7}, 3, 2, 0, kFloor},
      {"3x3 stride 2, padded", {2, 17, 6, 6}, 3, 2, 1, kFloor},
      {"3x3 stride 2, ceil", {2, 3, 8, 8}, 3, 2, 0, kCeil},
      {"3x3 stride 2, padded, ceil", {1, 4, 8, 7}, 3, 2, 1, kCeil},
      {"2x2 stride 3, ceil drops a window in the padding", {1, 3, 5, 5}, 2, 3, 1, kCeil},
      {"3x3 stride 2, ceil, larger than the image", {2, 3, 2, 5}, 3, 2, 0, kCeil},
      {"3x3 stride 1", {1, 4, 6, 5}, 3, 1, 1, kFloor},
      {"7x7 stride 1", {1, 8, 8, 8}, 7, 1, 0, kFloor},
      {"3x2 kernel", {2, 3, 6, 6}, {3, 2}, 2, 0, kFloor},
      {"the whole map", {2, 6, 5, 4}, {5, 4}, 1, 0, kFloor},
      {"1x1 map, padded", {2, 3, 1, 1}, 2, 1, 1, kFloor},
      {"1x1 map of 16 channels, padded", {2, 16, 1, 1}, 2, 1, 1, kFloor},
      {"1x1 map of 17 channels, padded", {1, 17, 1, 1}, 3, 2, 1, kFloor},
      {"1x1 map and kernel", {2, 5, 1, 1}, 1, 1, 0, kFloor},
      {"1x2 map, padded", {2, 3, 1, 2}, 2, 1, 1, kFloor},
      {"1x2 map of 16 channels, padded", {2, 16, 1, 2}, 3, 1, 1, kFloor},
      {"1x3 map, padded", {1, 5, 1, 3}, 3, 2, 1, kCeil},
      {"3x1 map of 32 channels, padded", {2, 32, 3, 1}, 3, 1, 1, kFloor},
      {"4x1 map", {2, 17, 4, 1}, {2, 1}, 2, 0, kFloor},
      {"1x4 map to one position", {2, 6, 1, 4}, {1, 4}, 1, 0, kFloor},
      {"one channel", {2, 1, 5, 4}, 2, 1, 0, kFloor},
      {"one channel of one image, 1x1 map, padded", {1, 1, 1, 1}, 2, 1, 1, kFloor},
      {"1x1 kernel", {2, 3, 4, 5}, 1, 1, 0, kFloor},
      {"1x3 kernel, padded", {2, 5, 4, 6}, {1, 3}, 1, {0, 1}, kFloor},
      {"3x1 kernel of 16 channels, padded, ceil", {2, 16, 6, 3}, {3, 1}, 2, {1, 0}, kCeil},
      {"strides 1 and 3", {2, 17, 5, 8}, {2, 3}, {1, 3}, 0, kFloor},
      {"strides 3 and 1, 16 channels, ceil", {1, 16, 8, 4}, 3, {3, 1}, {1, 0}, kCeil},
      {"padded on two sides only", {2, 3, 6, 8}, 3, 2, {0, 0, 1, 1}, kFloor},
      {"padded by side, 16 channels", {2, 16, 5, 6}, {2, 3}, {1, 2}, {1, 0, 0, 2}, kFloor},
      {"padded by side, ceil", {1, 4, 7, 6}, 3, 2, {0, 2, 1, 0}, kCeil},
      {"1x1 map, 1x3 kernel", {2, 3, 1, 1}, {1, 3}, 1, {0, 1}, kFloor},
      {"1x5 map of 16 channels, by side", {2, 16, 1, 5}, {1, 2}, {3, 2}, {0, 1, 0, 0}, kFloor},
      {"dilation 2", {2, 5, 7, 6}, 3, 1, 1, kFloor, 2},
      {"dilation 2, 16 channels", {2, 16, 7, 6}, 3, {2, 1}, 1, kFloor, 2},
      {"dilations 1 and 3, 33 channels", {1, 33, 4, 8}, 2, 1, {0, 2}, kFloor, {1, 3}},
      {"dilations 2 and 1, ceil, by side",
       {2, 3, 8, 5},
       {3, 2},
       {3, 2},
       {0, 1, 1, 0},
       kCeil,
       {2, 1}},
      {"dilation 3 over one row", {2, 17, 1, 9}, {1, 3}, 1, {0, 2}, kFloor, 3},
      {"dilation 2, 64 channels", {4, 64, 16, 12}, 3, 2, 1, kFloor, 2, /*small=*/false},
      {"2x2, 64 channels", {4, 64, 16, 16}, 2, 2, 0, kFloor, /*dilation=*/1, /*small=*/false},
      {"7x7 stride 1, 64 channels",
       {4, 64, 8, 8},
       7,
       1,
       0,
       kFloor,
       /*dilation=*/1,
       /*small=*/false},
  };
}

std::vector<Case> cases(Tensor (*pool)(Tensor, const PoolAttributes&, std::string),
                        bool count_include_pad) {
  std::vector<Case> result;
  for (const Sample& s : samples()) {
    if (count_include_pad && s.padding == Padding(0)) continue;
    PoolAttributes a;
    a.kernel = s.kernel;
    a.stride = s.stride;
    a.dilation = s.dilation;
    a.padding = s.padding;
    a.ceil_mode = s.ceil_mode;
    a.count_include_pad = count_include_pad;
    result.push_back({s.name + std::string(count_include_pad ? ", padding counts" : ""),
                      [=, x = s.x](CaseBuilder& b) { return pool(b.input(x), a, {}); }, s.small});
  }
  return result;
}

std::vector<Case> max_cases() {
  return cases(max_pool, false);
}

std::vector<Case> avg_cases() {
  std::vector<Case> result = cases(avg_pool, false);
  for (Case& c : cases(avg_pool, true)) result.push_back(std::move(c));
  return result;
}

Tensor append(const Op& op, Tensor x, const PoolAttributes& attributes, std::string name) {
  return x.graph->append(op, {x.value}, std::make_shared<PoolAttributes>(attributes),
                         std::move(name));
}

}  // namespace

int64_t pooled_size(int64_t size, const WindowAxis& axis, bool ceil_mode) {
  if (!ceil_mode) return axis.positions(size);
  WindowAxis longer = axis;
  longer.after += axis.stride - 1;
  const int64_t windows = longer.positions(size);
  const bool last_starts_outside = windows > 0 && axis.start(windows - 1) >= size;
  return windows - (last_starts_outside ? 1 : 0);
}

Tensor max_pool(Tensor x, const PoolAttributes& attributes, std::string name) {
  return append(kMaxPool, x, attributes, std::move(name));
}

Tensor avg_pool(Tensor x, const PoolAttributes& attributes, std::string name) {
  return append(kAvgPool, x, attributes, std::move(name));
}

Tensor global_avg_pool(Tensor x, std::string name) {
  PoolAttributes a;
  a.kernel = {x.shape()[2], x.shape()[3]};
  a.stride = 1;
  return append(kAvgPool, x, a, std::move(name));
}

}  // namespace crossbow
