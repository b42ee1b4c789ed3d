// Residual nets for CIFAR, He et al. 2015, in the first Crossbow's form: a projection where the
// number of channels changes, and at the end a 7×7 average with stride 1, which leaves 2×2 of
// CIFAR's 8×8 positions. On other images the average is global. ResNet-32 has 468,826 parameters.
#include <fmt/format.h>

#include "models/conv_bn.h"
#include "models/model.h"
#include "ops/activation.h"
#include "ops/elementwise.h"

namespace crossbow {
namespace {

Tensor basic_block(Tensor x, int64_t filters, int64_t stride) {
  Tensor shortcut = x;
  if (x.shape()[1] != filters) {
    shortcut = conv_bn(x, {.filters = filters, .kernel = 1, .stride = stride}, "shortcut.conv",
                       "shortcut.bn");
  }
  x = relu(conv_bn(x, {.filters = filters, .kernel = 3, .stride = stride}, "conv1", "bn1"));
  x = conv_bn(x, {.filters = filters, .kernel = 3, .stride = 1}, "conv2", "bn2");
  return relu(add(x, shortcut));
}

/// Global, so that the dense layer does not grow with the image: with stride 1 everywhere it would
/// have 320,002 parameters at 224×224 and diverge within a step. Only a side of 8, CIFAR's, keeps
/// the first Crossbow's window of 7.
Tensor last_pool(Tensor x) {
  const auto window = [](int64_t side) -> int64_t { return side == 8 ? 7 : side; };
  PoolAttributes a;
  a.kernel = {window(x.shape()[2]), window(x.shape()[3])};
  a.stride = 1;
  return avg_pool(x, a);
}

/// depth = 6n + 2: a first convolution, three stages of n blocks of two, and the dense layer.
template <int depth>
Tensor resnet(Tensor x, const ModelSpec& spec) {
  static_assert(depth % 6 == 2);
  x = relu(conv_bn(x, {.filters = 16, .kernel = 3, .stride = 1}, "conv", "bn"));
  for (int stage = 0; stage < 3; ++stage) {
    for (int block = 0; block < (depth - 2) / 6; ++block) {
      const auto scope = x.graph->scope(fmt::format("stage{}.block{}", stage + 1, block + 1));
      x = basic_block(x, int64_t{16} << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  return dense(last_pool(x), Dense{.outputs = spec.classes}, "fc");
}

template <int depth>
Model model() {
  return {
      .name = fmt::format("resnet-{}", depth),
      .summary = fmt::format("residual net of {} layers for CIFAR", depth),
      .default_image = {3, 32, 32},
      .default_classes = 10,
      .recipe = {.data = "cifar10",
                 .epochs = 160,
                 .lr = 0.05,
                 .lr_schedule = "multistep",
                 .lr_milestones = {80, 120},
                 .weight_decay = 1e-4,
                 .pad = 4,
                 .mirror = true},
      .logits = resnet<depth>,
  };
}

const RegisterModel kResnets[] = {
    RegisterModel(model<20>()), RegisterModel(model<32>()),  RegisterModel(model<44>()),
    RegisterModel(model<56>()), RegisterModel(model<110>()),
};

}  // namespace
}  // namespace crossbow
