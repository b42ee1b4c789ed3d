// Residual nets for ImageNet, He et al. 2015, with the layers' names of torchvision, whose weights
// they take. The stride of a bottleneck is in its 3×3 convolution, as torchvision has it ("v1.5"),
// or with variant=v1 in its first one, as published.
#include <fmt/format.h>

#include "models/conv_bn.h"
#include "models/imagenet.h"
#include "models/options.h"
#include "ops/activation.h"
#include "ops/elementwise.h"

namespace crossbow {
namespace {

Conv2d conv(int64_t filters, int64_t kernel, int64_t stride = 1) {
  return {.filters = filters, .kernel = kernel, .stride = stride, .weight_init = Initialiser::he()};
}

/// Convolutions one after the other, numbered, beside a shortcut that has the same shape in the
/// end.
Tensor block(Tensor x, std::initializer_list<Conv2d> convs) {
  Tensor shortcut = x, y = x;
  int64_t stride = 1;
  int number = 0;
  for (const Conv2d& layer : convs) {
    ++number;
    if (number > 1) y = relu(y);
    y = conv_bn(y, layer, fmt::format("conv{}", number), fmt::format("bn{}", number));
    stride *= layer.stride.height;
  }
  const int64_t filters = y.shape()[1];
  if (stride > 1 || x.shape()[1] != filters) {
    shortcut = conv_bn(x, conv(filters, 1, stride), "downsample.0", "downsample.1");
  }
  return relu(add(y, shortcut));
}

struct Form {
  int depth;
  int64_t blocks[4];
  bool bottleneck;
};

constexpr Form kForms[] = {{18, {2, 2, 2, 2}, false},
                           {34, {3, 4, 6, 3}, false},
                           {50, {3, 4, 6, 3}, true},
                           {101, {3, 4, 23, 3}, true},
                           {152, {3, 8, 36, 3}, true}};

template <int form>
Tensor logits(Tensor x, const ModelSpec& spec) {
  const Form& f = kForms[form];
  bool early = false;
  const std::string name = fmt::format("resnet-{}", f.depth);
  ModelOptions options(name, spec.options);
  if (f.bottleneck) early = options.choice("variant", "v1.5", {"v1", "v1.5"}) == "v1";
  options.finish();

  x = relu(conv_bn(x, conv(64, 7, 2), "conv1", "bn1"));
  x = max_pool(x, 3, 2, 1);
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int64_t b = 0; b < f.blocks[stage]; ++b) {
      const auto scope = x.graph->scope(fmt::format("layer{}.{}", stage + 1, b));
      const int64_t stride = stage > 0 && b == 0 ? 2 : 1;
      if (f.bottleneck) {
        x = block(x, {conv(width, 1, early ? stride : 1), conv(width, 3, early ? 1 : stride),
                      conv(4 * width, 1)});
      } else {
        x = block(x, {conv(width, 3, stride), conv(width, 3)});
      }
    }
  }
  x = avg_pool(x, {x.shape()[2], x.shape()[3]});
  return dense(x, torch_default(Dense{.outputs = spec.classes}, x.shape()[1]), "fc");
}

/// The published rate, 0.1 at batch 256, in proportion to a batch of 16.
Recipe recipe() {
  Recipe r = imagenet_recipe();
  r.lr = 0.00625;
  r.lr_milestones = {30, 60, 80};
  r.weight_decay = 1e-4;
  return r;
}

template <int form>
Model model() {
  const Form& f = kForms[form];
  return {
      .name = fmt::format("resnet-{}", f.depth),
      .summary = fmt::format("residual net of {} layers for ImageNet, as torchvision's", f.depth),
      .default_image = {3, 224, 224},
      .default_classes = 1000,
      .recipe = recipe(),
      .options_help = f.bottleneck ? "variant=v1.5 (or v1)" : "",
      .logits = logits<form>,
  };
}

const RegisterModel kResnets[] = {
    RegisterModel(model<0>()), RegisterModel(model<1>()), RegisterModel(model<2>()),
    RegisterModel(model<3>()), RegisterModel(model<4>()),
};

}  // namespace
}  // namespace crossbow
