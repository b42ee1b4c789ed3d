// AlexNet in the form of Krizhevsky 2014 ("One weird trick"), which convnet-benchmarks and
// torchvision have: 61,100,840 parameters, with torchvision's names.
#include "models/imagenet.h"
#include "ops/activation.h"
#include "ops/dropout.h"

namespace crossbow {
namespace {

constexpr int64_t kLastMaps = 6;

Tensor conv(Tensor x, Conv2d layer, const char* name) {
  return relu(conv2d(x, torch_default(layer, x.shape()[1]), name));
}

Tensor linear(Tensor x, int64_t outputs, const char* name) {
  return dense(x, torch_default(Dense{.outputs = outputs}, x.shape().elements_from(1)), name);
}

int64_t map_side(int64_t image) {
  constexpr WindowAxis kFirst{.kernel = 11, .stride = 4, .dilation = 1, .before = 2, .after = 2};
  constexpr WindowAxis kPool{.kernel = 3, .stride = 2, .dilation = 1, .before = 0, .after = 0};
  return kPool.positions(kPool.positions(kPool.positions(kFirst.positions(image))));
}

Tensor logits(Tensor x, const ModelSpec& spec) {
  expect_equal_windows("alexnet", x.shape(), kLastMaps, map_side);
  x = conv(x, {.filters = 64, .kernel = 11, .stride = 4, .padding = 2}, "features.0");
  x = max_pool(x, 3, 2);
  x = conv(x, {.filters = 192, .kernel = 5, .padding = 2}, "features.3");
  x = max_pool(x, 3, 2);
  x = conv(x, {.filters = 384, .padding = 1}, "features.6");
  x = conv(x, {.filters = 256, .padding = 1}, "features.8");
  x = conv(x, {.filters = 256, .padding = 1}, "features.10");
  x = dropout(average_to(max_pool(x, 3, 2), kLastMaps), 0.5f);
  x = dropout(relu(linear(x, 4096, "classifier.1")), 0.5f);
  x = relu(linear(x, 4096, "classifier.4"));
  return linear(x, spec.classes, "classifier.6");
}

/// The published rate, 0.01 at batch 128, in proportion to a batch of 16. It was divided by ten
/// three times in 90 epochs, when the error no longer fell.
Recipe recipe() {
  Recipe r = imagenet_recipe();
  r.lr = 0.00125;
  r.lr_milestones = {30, 60, 80};
  r.weight_decay = 5e-4;
  return r;
}

const RegisterModel kAlexnet({
    .name = "alexnet",
    .summary = "AlexNet for ImageNet, as torchvision's",
    .default_image = {3, 224, 224},
    .default_classes = 1000,
    .recipe = recipe(),
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
