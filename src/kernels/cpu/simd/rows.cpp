// Softmax and losses, over f32 rows.
#include "kernels/cpu/simd/functions.h"
#include "kernels/cpu/simd/tables.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

float largest(const float* x, int64_t n) {
  F32 m = broadcast(x[0]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) m = max(m, load(x + i));
  float result = max(m);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

double sum_of(const float* x, int64_t n) {
  return reduce(
      n, [](F32 v) { return v; }, x);
}

double softmax(const float* x, float* y, int64_t n) {
  const float top = largest(x, n);
  map(
      n, [=](F32 v) { return exp(v - top); }, y, x);
  const double total = sum_of(y, n);
  const float inverse = static_cast<float>(1 / total);
  map(
      n, [=](F32 v) { return v * inverse; }, y, y);
  return top + __builtin_log(total);
}

void softmax_grad(const float* dy, const float* y, float* dx, int64_t n) {
  const float dot = static_cast<float>(reduce(
      n, [](F32 g, F32 v) { return g * v; }, dy, y));
  map(
      n, [=](F32 g, F32 v) { return v * (g - dot); }, dx, dy, y);
}

void scaled_difference(const float* p, float uniform, float scale, float* y, int64_t n) {
  map(
      n, [=](F32 v) { return scale * (v - uniform); }, y, p);
}

double dot(const float* a, const float* b, int64_t n) {
  return reduce(
      n, [](F32 u, F32 v) { return u * v; }, a, b);
}

double squared_distance(const float* a, const float* b, int64_t n) {
  return reduce(
      n, [](F32 u, F32 v) { return (u - v) * (u - v); }, a, b);
}

void squared_distance_grad(const float* a, const float* b, float scale, float* dx, int64_t n) {
  map(
      n, [=](F32 u, F32 v) { return scale * (u - v); }, dx, a, b);
}

double sigmoid_cross_entropy(const float* x, const float* t, int64_t n) {
  const auto f = [](F32 v, F32 target) { return max(F32{}, v) - v * target + log1p(exp(-abs(v))); };
  return reduce(n, f, x, t);
}

void sigmoid_cross_entropy_grad(const float* x, const float* t, float scale, float* dx, int64_t n) {
  map(
      n, [=](F32 v, F32 target) { return scale * (sigmoid(v) - target); }, dx, x, t);
}

}  // namespace

void add_rows(Loops& loops) {
  loops.softmax = softmax;
  loops.softmax_grad = softmax_grad;
  loops.scaled_difference = scaled_difference;
  loops.sum = sum_of;
  loops.dot = dot;
  loops.squared_distance = squared_distance;
  loops.squared_distance_grad = squared_distance_grad;
  loops.sigmoid_cross_entropy = sigmoid_cross_entropy;
  loops.sigmoid_cross_entropy_grad = sigmoid_cross_entropy_grad;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
