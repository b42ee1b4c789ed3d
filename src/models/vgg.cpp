// VGG-16 for CIFAR with batch norm and dropout, after Liu & Deng 2015 and the first Crossbow:
// 15,038,116 parameters with 100 classes.
#include <fmt/format.h>

#include "models/layers.h"
#include "models/model.h"
#include "ops/activation.h"
#include "ops/dropout.h"

namespace crossbow {
namespace {

constexpr BatchNorm kBatchNorm{.epsilon = 1e-3f, .momentum = 0.99f};

/// Rounds up, so that images smaller than 32×32 still have a pixel left after five of them.
Tensor halve(Tensor x) {
  PoolAttributes a;
  a.ceil_mode = true;
  return max_pool(x, a);
}

Tensor conv_unit(Tensor x, int64_t filters, const Initialiser& init, int number) {
  const Conv2d conv{.filters = filters, .padding = 1, .weight_init = init};
  x = relu(conv2d(x, conv, fmt::format("conv{}", number)));
  return batch_norm(x, kBatchNorm, fmt::format("bn{}", number));
}

Tensor logits(Tensor x, const ModelSpec& spec) {
  const Initialiser init = Initialiser::xavier(Initialiser::Fan::average);
  struct Block {
    int64_t filters;
    int units;
  };
  int number = 0;
  for (const Block& block : {Block{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int unit = 1; unit <= block.units; ++unit) {
      x = conv_unit(x, block.filters, init, ++number);
      if (unit < block.units) x = dropout(x, number == 1 ? 0.3f : 0.4f);
    }
    x = halve(x);
  }
  // fc1 reads every position that is left, as in the published net: one at 32×32, and 7×7 at
  // 224×224. Batch norm before it and behind it keeps its steps small there too.
  x = dropout(x, 0.5f);
  x = relu(dense(x, Dense{.outputs = 512, .weight_init = init}, "fc1"));
  x = dropout(batch_norm(x, kBatchNorm, "bn14"), 0.5f);
  return dense(x, Dense{.outputs = spec.classes, .weight_init = init}, "fc2");
}

const RegisterModel kVgg({
    .name = "vgg-16",
    .summary = "VGG-16 with batch norm and dropout for CIFAR",
    .default_image = {3, 32, 32},
    .default_classes = 100,
    // The published rate, 0.1 at batch 128 to 256, in proportion to a batch of 16.
    .recipe = {.data = "cifar100",
               .epochs = 250,
               .lr = 0.01,
               .lr_schedule = "multistep",
               .lr_milestones = {20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220, 240},
               .lr_gamma = 0.5,
               .weight_decay = 5e-4,
               .mirror = true},
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
