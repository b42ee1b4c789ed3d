#include "ops/pool.h"

#include "core/error.h"
#include "graph/op.h"
#include "ops/expect.h"

namespace crossbow {
namespace {

Shape pooled_shape(const Node& node, std::span<const TensorType> in) {
  const auto& a = node.attrs<PoolAttributes>();
  expect_rank(in[0], 4, "x", "[N, C, H, W]");
  const Shape& x = in[0].shape;
  if (a.kernel_h < 1 || a.kernel_w < 1 || a.stride < 1 || a.padding < 0) {
    fail("kernel {}x{} and stride {} must be at least 1 and padding {} at least 0", a.kernel_h,
         a.kernel_w, a.stride, a.padding);
  }
  // Else a window could lie in the padding alone.
  if (a.padding >= a.kernel_h || a.padding >= a.kernel_w) {
    fail("padding {} must be smaller than the kernel {}x{}", a.padding, a.kernel_h, a.kernel_w);
  }
  // Rounding up lets the one window of a small image stick out of it.
  const int64_t reach = 2 * a.padding + (a.ceil_mode ? a.stride - 1 : 0);
  if (a.kernel_h > x[2] + reach || a.kernel_w > x[3] + reach) {
    fail("the pooling kernel {}x{} is larger than x {} with padding {}", a.kernel_h, a.kernel_w,
         x.str(), a.padding);
  }
  return {x[0], x[1], pooled_size(x[2], a.kernel_h, a), pooled_size(x[3], a.kernel_w, a)};
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
  int64_t kernel_h, kernel_w, stride, padding;
  bool ceil_mode, small = true;
};

constexpr bool kFloor = false, kCeil = true;

std::vector<Sample> samples() {
  return {
      {"2x2", {2, 5, 6, 6}, 2, 2, 2, 0, kFloor},
      {"2x2, 16 channels", {2, 16, 4, 4}, 2, 2, 2, 0, kFloor},
      {"2x2 that leaves a border unread", {2, 3, 7, 5}, 2, 2, 2, 0, kFloor},
      {"2x2 ceil", {2, 3, 7, 5}, 2, 2, 2, 0, kCeil},
      {"3x3 stride 2, overlapping", {2, 4, 7, 7}, 3, 3, 2, 0, kFloor},
      {"3x3 stride 2, padded", {2, 17, 6, 6}, 3, 3, 2, 1, kFloor},
      {"3x3 stride 2, ceil", {2, 3, 8, 8}, 3, 3, 2, 0, kCeil},
      {"3x3 stride 2, padded, ceil", {1, 4, 8, 7}, 3, 3, 2, 1, kCeil},
      {"2x2 stride 3, ceil drops a window in the padding", {1, 3, 5, 5}, 2, 2, 3, 1, kCeil},
      {"3x3 stride 2, ceil, larger than the image", {2, 3, 2, 5}, 3, 3, 2, 0, kCeil},
      {"3x3 stride 1", {1, 4, 6, 5}, 3, 3, 1, 1, kFloor},
      {"7x7 stride 1", {1, 8, 8, 8}, 7, 7, 1, 0, kFloor},
      {"3x2 kernel", {2, 3, 6, 6}, 3, 2, 2, 0, kFloor},
      {"the whole map", {2, 6, 5, 4}, 5, 4, 1, 0, kFloor},
      {"1x1 map, padded", {2, 3, 1, 1}, 2, 2, 1, 1, kFloor},
      {"1x1 map of 16 channels, padded", {2, 16, 1, 1}, 2, 2, 1, 1, kFloor},
      {"1x1 map of 17 channels, padded", {1, 17, 1, 1}, 3, 3, 2, 1, kFloor},
      {"1x1 map and kernel", {2, 5, 1, 1}, 1, 1, 1, 0, kFloor},
      {"1x2 map, padded", {2, 3, 1, 2}, 2, 2, 1, 1, kFloor},
      {"1x2 map of 16 channels, padded", {2, 16, 1, 2}, 3, 3, 1, 1, kFloor},
      {"1x3 map, padded", {1, 5, 1, 3}, 3, 3, 2, 1, kCeil},
      {"3x1 map of 32 channels, padded", {2, 32, 3, 1}, 3, 3, 1, 1, kFloor},
      {"4x1 map", {2, 17, 4, 1}, 2, 1, 2, 0, kFloor},
      {"1x4 map to one position", {2, 6, 1, 4}, 1, 4, 1, 0, kFloor},
      {"one channel", {2, 1, 5, 4}, 2, 2, 1, 0, kFloor},
      {"one channel of one image, 1x1 map, padded", {1, 1, 1, 1}, 2, 2, 1, 1, kFloor},
      {"1x1 kernel", {2, 3, 4, 5}, 1, 1, 1, 0, kFloor},
      {"2x2, 64 channels", {4, 64, 16, 16}, 2, 2, 2, 0, kFloor, /*small=*/false},
      {"7x7 stride 1, 64 channels", {4, 64, 8, 8}, 7, 7, 1, 0, kFloor, /*small=*/false},
  };
}

std::vector<Case> cases(Tensor (*pool)(Tensor, const PoolAttributes&, std::string),
                        bool count_include_pad) {
  std::vector<Case> result;
  for (const Sample& s : samples()) {
    if (count_include_pad && s.padding == 0) continue;
    PoolAttributes a;
    a.kernel_h = s.kernel_h;
    a.kernel_w = s.kernel_w;
    a.stride = s.stride;
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

int64_t pooled_size(int64_t size, int64_t kernel, const PoolAttributes& a) {
  const int64_t travel = size + 2 * a.padding - kernel;
  if (!a.ceil_mode) return travel / a.stride + 1;
  const int64_t windows = (travel + a.stride - 1) / a.stride + 1;
  const bool last_starts_outside = (windows - 1) * a.stride >= size + a.padding;
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
  a.kernel_h = x.shape()[2];
  a.kernel_w = x.shape()[3];
  a.stride = 1;
  return append(kAvgPool, x, a, std::move(name));
}

}  // namespace crossbow
