// A small residual net, trained by two learners on the built-in digits: expects 98 % test accuracy
// after one epoch, and exits 1 on a miss. Run: build/release/example_residual_net
#include <cstdio>

#include <crossbow/crossbow.h>

using namespace crossbow;

Tensor conv_norm(Tensor x, int64_t filters, int64_t stride = 1) {
  const Conv2d conv{.filters = filters, .stride = stride, .padding = 1, .bias = false};
  return batch_norm(conv2d(x, conv));
}

/// relu(x + f(x)): gradients flow through both branches.
Tensor residual_block(Tensor x, int64_t filters) {
  const Tensor branch = conv_norm(relu(conv_norm(x, filters)), filters);
  return relu(add(x, branch));
}

Tensor residual_net(Tensor images) {
  Tensor x = relu(conv_norm(images, 16, /*stride=*/2));
  x = residual_block(x, 16);
  x = relu(conv_norm(x, 32, /*stride=*/2));
  x = residual_block(x, 32);
  return dense(global_avg_pool(x), Dense{.outputs = 10});
}

int main() {
  const TrainResult result =
      train(residual_net, {.data = "digits", .batch = 32, .learners = 2, .epochs = 1, .lr = 0.05});
  std::printf("%lld parameters, test accuracy %.2f %%, %.0f images/s\n",
              static_cast<long long>(result.parameters), 100 * *result.final_test_accuracy,
              result.images_per_second);
  return *result.final_test_accuracy >= 0.98 ? 0 : 1;
}
