// MobileNetV2, Sandler et al. 2018, with the layers' names of torchvision, whose weights it takes:
// 3,504,872 parameters.
#include <fmt/format.h>

#include "models/conv_bn.h"
#include "models/imagenet.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"

namespace crossbow {
namespace {

struct Stage {
  int64_t expansion, filters, blocks, stride;
};

constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

/// The layers `number` and `number + 1` of the current scope.
Tensor unit(Tensor x, Conv2d conv, int number) {
  conv.weight_init = Initialiser::he();
  return conv_bn(x, conv, fmt::format("{}", number), fmt::format("{}", number + 1));
}

/// With an activation, a unit is a scope of its own in torchvision.
Tensor active_unit(Tensor x, const Conv2d& conv, const std::string& name) {
  const auto scope = x.graph->scope(name);
  return relu6(unit(x, conv, 0));
}

/// Widens by 1×1, filters each channel by itself, and narrows without an activation.
Tensor inverted_residual(Tensor x, const Stage& stage, int64_t stride) {
  const int64_t inputs = x.shape()[1], width = inputs * stage.expansion;
  int number = 0;
  Tensor y = x;
  if (stage.expansion > 1) {
    y = active_unit(y, {.filters = width, .kernel = 1}, fmt::format("{}", number++));
  }
  const Conv2d depthwise{.filters = width, .stride = stride, .groups = width};
  y = active_unit(y, depthwise, fmt::format("{}", number++));
  y = unit(y, {.filters = stage.filters, .kernel = 1}, number);
  return stride == 1 && inputs == stage.filters ? add(x, y) : y;
}

Tensor logits(Tensor x, const ModelSpec& spec) {
  {
    const auto features = x.graph->scope("features");
    x = active_unit(x, {.filters = 32, .stride = 2}, "0");
    int number = 0;
    for (const Stage& stage : kStages) {
      for (int64_t block = 0; block < stage.blocks; ++block) {
        const auto scope = x.graph->scope(fmt::format("{}.conv", ++number));
        x = inverted_residual(x, stage, block == 0 ? stage.stride : 1);
      }
    }
    x = active_unit(x, {.filters = 1280, .kernel = 1}, fmt::format("{}", ++number));
  }
  x = dropout(global_avg_pool(x), 0.2f);
  const Dense last{.outputs = spec.classes, .weight_init = Initialiser::gaussian(0, 0.01f)};
  return dense(x, last, "classifier.1");
}

/// torchvision's for SGD: 0.045 at batch 256, in proportion to a batch of 16. The paper took
/// RMSProp at the same rate, which falls by the same 2 % an epoch.
Recipe recipe() {
  Recipe r = imagenet_recipe();
  r.epochs = 300;
  r.lr = 0.0028125;
  r.lr_schedule = "step";
  r.lr_milestones = {1};
  r.lr_gamma = 0.98;
  r.weight_decay = 4e-5;
  return r;
}

const RegisterModel kMobileNet({
    .name = "mobilenet-v2",
    .summary = "MobileNetV2 for ImageNet, as torchvision's",
    .default_image = {3, 224, 224},
    .default_classes = 1000,
    .recipe = recipe(),
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
