// OverFeat's fast net, Sermanet et al. 2013, as convnet-benchmarks has it: 145,920,872 parameters.
#include "models/imagenet.h"
#include "ops/activation.h"
#include "ops/dropout.h"

namespace crossbow {
namespace {

constexpr int64_t kSide = 231, kLastMaps = 6;

/// As published.
const Initialiser kInit = Initialiser::gaussian(0, 0.01f);

Tensor conv(Tensor x, Conv2d layer, const char* name) {
  layer.weight_init = kInit;
  return relu(conv2d(x, layer, name));
}

int64_t map_side(int64_t image) {
  constexpr WindowAxis kFirst{.kernel = 11, .stride = 4, .dilation = 1, .before = 0, .after = 0};
  constexpr WindowAxis kSecond{.kernel = 5, .stride = 1, .dilation = 1, .before = 0, .after = 0};
  return kSecond.positions(kFirst.positions(image) / 2) / 2 / 2;
}

Tensor logits(Tensor x, const ModelSpec& spec) {
  expect_equal_windows("overfeat", x.shape(), kLastMaps, map_side);
  x = max_pool(conv(x, {.filters = 96, .kernel = 11, .stride = 4}, "features.0"), 2);
  x = max_pool(conv(x, {.filters = 256, .kernel = 5}, "features.3"), 2);
  x = conv(x, {.filters = 512, .padding = 1}, "features.6");
  x = conv(x, {.filters = 1024, .padding = 1}, "features.8");
  x = conv(x, {.filters = 1024, .padding = 1}, "features.10");
  x = average_to(max_pool(x, 2), kLastMaps);
  x = dropout(x, 0.5f);
  x = relu(dense(x, {.outputs = 3072, .weight_init = kInit}, "classifier.1"));
  x = dropout(x, 0.5f);
  x = relu(dense(x, {.outputs = 4096, .weight_init = kInit}, "classifier.4"));
  return dense(x, {.outputs = spec.classes, .weight_init = kInit}, "classifier.6");
}

/// The published rate, 0.05 at batch 128, in proportion to a batch of 16.
Recipe recipe() {
  Recipe r = imagenet_recipe();
  r.image_size = kSide;
  r.lr = 0.00625;
  r.lr_milestones = {30, 50, 60, 70, 80};
  r.lr_gamma = 0.5;
  r.momentum = 0.6;
  r.weight_decay = 1e-5;
  return r;
}

const RegisterModel kOverfeat({
    .name = "overfeat",
    .summary = "OverFeat's fast net for ImageNet, as convnet-benchmarks'",
    .default_image = {3, kSide, kSide},
    .default_classes = 1000,
    .recipe = recipe(),
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
