// Residual nets for ImageNet, He et al. 2015, with the layers' names of torchvision, whose weights
// they take. The stride of a bottleneck is in its 3×3 convolution, as torchvision has it ("v1.5"),
// or with variant=v1 in its first one, as published.
// With variant=v2 they are those of He et al. 2016 ("Identity mappings in deep residual networks"),
// in the form of TensorFlow's models and of timm's resnetv2: what a block adds begins with batch
// norm and ReLU, and nothing follows the addition.
#include <fmt/format.h>

#include <vector>

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

using Convolutions = std::vector<Conv2d>;

/// Of the convolutions, one after the other.
int64_t stride_of(const Convolutions& convs) {
  int64_t stride = 1;
  for (const Conv2d& layer : convs) stride *= layer.stride.height;
  return stride;
}

bool changes_shape(Tensor x, const Convolutions& convs) {
  return stride_of(convs) > 1 || x.shape()[1] != convs.back().filters;
}

/// Makes the shape of a block's input that of its convolutions' output.
Conv2d projection(const Convolutions& convs) {
  return conv(convs.back().filters, 1, stride_of(convs));
}

/// Convolutions one after the other, numbered, beside a shortcut that has the same shape in the
/// end.
Tensor block(Tensor x, const Convolutions& convs) {
  Tensor shortcut = x, y = x;
  int number = 0;
  for (const Conv2d& layer : convs) {
    ++number;
    if (number > 1) y = relu(y);
    y = conv_bn(y, layer, fmt::format("conv{}", number), fmt::format("bn{}", number));
  }
  if (changes_shape(x, convs)) {
    shortcut = conv_bn(x, projection(convs), "downsample.0", "downsample.1");
  }
  return relu(add(y, shortcut));
}

/// The same of v2. A shortcut that changes the shape begins behind the first ReLU.
Tensor preactivated_block(Tensor x, const Convolutions& convs) {
  Tensor shortcut = x, y = x;
  int number = 0;
  for (const Conv2d& layer : convs) {
    ++number;
    y = relu(batch_norm(y, {}, fmt::format("bn{}", number)));
    if (number == 1 && changes_shape(x, convs)) {
      shortcut = same_conv(y, projection(convs), "downsample.0");
    }
    y = same_conv(y, layer, fmt::format("conv{}", number));
  }
  return add(y, shortcut);
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

enum class Variant { v1, v1_5, v2 };

/// Without bottlenecks v1.5 is v1.
Variant variant_of(const Form& form, const ModelSpec& spec) {
  const std::string name = fmt::format("resnet-{}", form.depth);
  ModelOptions options(name, spec.options);
  const std::string variant = form.bottleneck
                                  ? options.choice("variant", "v1.5", {"v1", "v1.5", "v2"})
                                  : options.choice("variant", "v1", {"v1", "v2"});
  options.finish();
  if (variant == "v2") return Variant::v2;
  return variant == "v1" ? Variant::v1 : Variant::v1_5;
}

Convolutions convolutions(bool bottleneck, Variant variant, int64_t width, int64_t stride) {
  if (!bottleneck) return {conv(width, 3, stride), conv(width, 3)};
  const bool early = variant == Variant::v1;
  return {conv(width, 1, early ? stride : 1), conv(width, 3, early ? 1 : stride),
          conv(4 * width, 1)};
}

template <int form>
Tensor logits(Tensor x, const ModelSpec& spec) {
  const Form& f = kForms[form];
  const Variant variant = variant_of(f, spec);
  const bool preactivated = variant == Variant::v2;

  const Conv2d first = conv(64, 7, 2);
  x = preactivated ? same_conv(x, first, "conv1") : relu(conv_bn(x, first, "conv1", "bn1"));
  x = max_pool(x, 3, 2, 1);
  for (int stage = 0; stage < 4; ++stage) {
    for (int64_t b = 0; b < f.blocks[stage]; ++b) {
      const auto scope = x.graph->scope(fmt::format("layer{}.{}", stage + 1, b));
      const int64_t width = int64_t{64} << stage, stride = stage > 0 && b == 0 ? 2 : 1;
      const Convolutions convs = convolutions(f.bottleneck, variant, width, stride);
      x = preactivated ? preactivated_block(x, convs) : block(x, convs);
    }
  }
  if (preactivated) x = relu(batch_norm(x, {}, "bn"));
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
      .summary = fmt::format("residual net of {} layers for ImageNet, by default as torchvision's",
                             f.depth),
      .default_image = {3, 224, 224},
      .default_classes = 1000,
      .recipe = recipe(),
      .options_help = f.bottleneck ? "variant=v1.5 (or v1, v2: published in 2015, 2016)"
                                   : "variant=v1 (or v2: published in 2016)",
      .logits = logits<form>,
  };
}

const RegisterModel kResnets[] = {
    RegisterModel(model<0>()), RegisterModel(model<1>()), RegisterModel(model<2>()),
    RegisterModel(model<3>()), RegisterModel(model<4>()),
};

}  // namespace
}  // namespace crossbow
