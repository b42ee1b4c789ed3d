#include "ops/pool.h"

#include <gtest/gtest.h>

#include "graph/source.h"
#include "models/layers.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

PoolAttributes window(int64_t kernel, int64_t stride, int64_t padding = 0, bool ceil = false) {
  PoolAttributes a;
  a.kernel = kernel;
  a.stride = stride;
  a.padding = padding;
  a.ceil_mode = ceil;
  return a;
}

int64_t pooled(int64_t size, const PoolAttributes& a) {
  return pooled_size(size, a.axes()[0], a.ceil_mode);
}

// Expected values from PyTorch's MaxPool2d.
TEST(PooledSize, FloorAndCeil) {
  EXPECT_EQ(pooled(112, window(3, 2)), 55);
  EXPECT_EQ(pooled(112, window(3, 2, 0, true)), 56);
  EXPECT_EQ(pooled(112, window(3, 2, 1)), 56);
  EXPECT_EQ(pooled(8, window(2, 2, 0, true)), 4);
  EXPECT_EQ(pooled(7, window(2, 2)), 3);
  EXPECT_EQ(pooled(7, window(2, 2, 0, true)), 4);
}

TEST(PooledSize, CeilDropsWindowsThatStartInTheRightPadding) {
  EXPECT_EQ(pooled(5, window(2, 3, 1, true)), 2);
  EXPECT_EQ(pooled(4, window(2, 3, 1, true)), 2);
  EXPECT_EQ(pooled(6, window(1, 4, 0, true)), 2);
  EXPECT_EQ(pooled(4, window(1, 4, 0, true)), 1);
}

TEST(Pool, OutputShapes) {
  Graph graph;
  const Tensor x = input(graph, {2, 3, 9, 6});
  const Tensor y = max_pool(x, window(2, 2));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4, 3}));
  EXPECT_EQ(y.output(1).type(), (TensorType{{2, 3, 4, 3}, DType::i32}));
  EXPECT_EQ(avg_pool(x, window(2, 2, 0, true)).shape(), (Shape{2, 3, 5, 3}));
  EXPECT_EQ(global_avg_pool(x).shape(), (Shape{2, 3, 1, 1}));
}

TEST(Pool, EachAxisHasItsOwnWindow) {
  Graph graph;
  const Tensor x = input(graph, {2, 3, 9, 6});
  PoolAttributes a;
  a.kernel = {1, 3};
  a.stride = {2, 1};
  a.padding = {0, 1};
  EXPECT_EQ(max_pool(x, a).shape(), (Shape{2, 3, 5, 6}));
  a.dilation = {1, 2};
  EXPECT_EQ(avg_pool(x, a).shape(), (Shape{2, 3, 5, 4}));
  a.padding = {0, 2, 1, 0};
  EXPECT_EQ(max_pool(x, a).shape(), (Shape{2, 3, 5, 4}));
  EXPECT_EQ(max_pool(x, {3, 2}).shape(), (Shape{2, 3, 3, 3}));
  EXPECT_EQ(avg_pool(x, {3, 2}, {1, 2}, {1, 0}).shape(), (Shape{2, 3, 9, 3}));
}

TEST(Pool, Errors) {
  Graph graph;
  const Tensor x = input(graph, {2, 3, 5, 9});
  EXPECT_EQ(error_of([&] { avg_pool(x, window(7, 1), "pool"); }),
            "layer pool: the pooling kernel 7x7 is larger than x [2, 3, 5, 9] with padding 0");
  EXPECT_EQ(error_of([&] { max_pool(x, window(2, 2, 2), "pool"); }),
            "layer pool: with padding 2 a window of the kernel 2x2 would read nothing of x "
            "[2, 3, 5, 9]");
  EXPECT_EQ(error_of([&] { max_pool(x, window(2, 0), "pool"); }),
            "layer pool: kernel 2x2, stride 0 and dilation 1 must be at least 1 and padding 0 at "
            "least 0");
  EXPECT_EQ(error_of([&] {
              max_pool(x, {2, 2}, {1, 1}, {0, 1, 0, -1});
            }),
            "layer max_pool: kernel 2x2, stride 1 and dilation 1 must be at least 1 and padding "
            "0,1,0,-1 at least 0");
  PoolAttributes dilated = window(2, 1, 1);
  dilated.dilation = {4, 1};
  EXPECT_EQ(error_of([&] {
              max_pool(input(graph, {2, 3, 3, 9}), dilated, "pool");
            }),
            "layer pool: with padding 1 a window of the kernel 2x2 of dilation 4x1 would read "
            "nothing of x [2, 3, 3, 9]");
  EXPECT_EQ(error_of([&] {
              max_pool(input(graph, {2, 45}), window(2, 2), "pool");
            }),
            "layer pool: x must be [N, C, H, W], not [2, 45]");
  EXPECT_EQ(error_of([&] {
              global_avg_pool(input(graph, {2, 45}), "pool");
            }),
            "layer pool: x must be [N, C, H, W], not [2, 45]");
}

}  // namespace
}  // namespace crossbow::testing
