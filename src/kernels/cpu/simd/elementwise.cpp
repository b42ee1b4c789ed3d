// Sums, products and activations.
#include "kernels/cpu/simd/functions.h"
#include "kernels/cpu/simd/tables.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

template <typename T, F32 (*f)(F32)>
void unary(const T* x, T* y, int64_t n) {
  map(
      n, [](F32 v) { return f(v); }, y, x);
}

template <typename T, F32 (*f)(F32, F32)>
void binary(const T* a, const T* b, T* y, int64_t n) {
  map(
      n, [](F32 u, F32 v) { return f(u, v); }, y, a, b);
}

F32 add(F32 a, F32 b) {
  return a + b;
}
F32 add_relu(F32 a, F32 b) {
  return relu(a + b);
}
F32 multiply(F32 a, F32 b) {
  return a * b;
}
F32 relu_grad(F32 dy, F32 y) {
  return y > 0 ? dy : F32{};
}
F32 relu6_grad(F32 dy, F32 y) {
  return y > 0 ? (y < 6 ? dy : F32{}) : F32{};
}
F32 sigmoid_grad(F32 dy, F32 y) {
  return dy * (y * (1 - y));
}
F32 tanh_grad(F32 dy, F32 y) {
  return dy * (1 - y * y);
}

F32 gelu(F32 x) {
  return x * normal(x).below;
}
F32 gelu_grad(F32 dy, F32 x) {
  const Normal n = normal(x);
  return dy * (n.below + 0.398942280f * x * n.bell);
}

// (1 + tanh(u))/2 is sigmoid(2u), and 2u = kLinear·x + kCubic·x³.
constexpr float kLinear = 1.59576912f, kCubic = 0.0713548163f;

F32 gelu_tanh(F32 x) {
  return x * sigmoid(x * (kLinear + kCubic * x * x));
}
/// Beyond 20 the sigmoid is 0 or 1, and the square of x, which may be infinite, must not count.
F32 gelu_tanh_grad(F32 dy, F32 x) {
  F32 inside = x < -20 ? broadcast(-20) : x;
  inside = inside > 20 ? broadcast(20) : inside;
  const F32 square = inside * inside;
  const F32 s = sigmoid(inside * (kLinear + kCubic * square));
  return dy * (s + inside * s * (1 - s) * (kLinear + 3 * kCubic * square));
}

template <typename T>
void fill(TypedLoops<T>& t) {
  t.add = binary<T, add>;
  t.add_relu = binary<T, add_relu>;
  t.multiply = binary<T, multiply>;
  t.relu = unary<T, relu>;
  t.relu6 = unary<T, relu6>;
  t.sigmoid = unary<T, sigmoid>;
  t.tanh = unary<T, tanh>;
  t.gelu = unary<T, gelu>;
  t.gelu_tanh = unary<T, gelu_tanh>;
  t.relu_grad = binary<T, relu_grad>;
  t.relu6_grad = binary<T, relu6_grad>;
  t.sigmoid_grad = binary<T, sigmoid_grad>;
  t.tanh_grad = binary<T, tanh_grad>;
  t.gelu_grad = binary<T, gelu_grad>;
  t.gelu_tanh_grad = binary<T, gelu_tanh_grad>;
}

}  // namespace

void add_elementwise(Loops& loops) {
  fill(loops.f32);
  fill(loops.bf16);
}

}  // namespace crossbow::simd::CROSSBOW_ISA
