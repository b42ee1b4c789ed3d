// LeNet for MNIST as the first Crossbow trained it: 1,111,946 parameters at 28×28 grey pixels. Only
// the first weights differ: its own (a Gaussian of 0.1, biases of 0.1) diverge at rates at which
// these still learn, and learn more slowly at lower ones.
#include "models/layers.h"
#include "models/limits.h"
#include "models/model.h"
#include "ops/activation.h"
#include "ops/dropout.h"

namespace crossbow {
namespace {

Tensor logits(Tensor x, const ModelSpec& spec) {
  // fc1 reads every position, as LeNet's does, and so grows with the image. Above 128 pixels a side
  // it would have over 55 million weights, for which the recipe's rate is too high: at 224 the loss
  // over two classes jumps from 0.7 to 6 in a step. Below 16 conv2 finds no window.
  expect_sides("lenet", x.shape(), 16, 128);
  // Pooling before the ReLU gives the same values and gradients for a quarter of the work.
  x = conv2d(x, Conv2d{.filters = 32, .kernel = 5}, "conv1");
  x = relu(max_pool(x, 2));
  x = conv2d(x, Conv2d{.filters = 64, .kernel = 5}, "conv2");
  x = relu(max_pool(x, 2));
  x = dense(x, Dense{.outputs = 1024}, "fc1");
  x = dropout(relu(x), 0.4f);
  return dense(x, Dense{.outputs = spec.classes}, "fc2");
}

const RegisterModel kLenet({
    .name = "lenet",
    .summary = "LeNet: two 5x5 convolutions and two fully connected layers",
    .default_image = {1, 28, 28},
    .default_classes = 10,
    .recipe =
        {.data = "digits", .epochs = 3, .lr = 0.01, .lr_schedule = "cosine", .weight_decay = 1e-4},
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
