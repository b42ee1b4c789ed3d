// Inception-v3, Szegedy et al. 2015 ("Rethinking the Inception architecture"), with the
// layers' names of torchvision, whose weights it takes: 23,834,568 parameters, and with aux=true,
// for the auxiliary head, 27,161,264.
#include <fmt/format.h>

#include "core/error.h"
#include "models/basic_conv.h"
#include "models/imagenet.h"
#include "models/options.h"
#include "ops/dropout.h"
#include "ops/shape_ops.h"

namespace crossbow {
namespace {

constexpr int64_t kSide = 299;

/// Of the current scope's layers.
Tensor conv(Tensor x, int64_t filters, const Size2& kernel, const std::string& name,
            const Size2& stride = 1, const Padding& padding = 0, float deviation = 0.1f) {
  return basic_conv(x,
                    {.filters = filters,
                     .kernel = kernel,
                     .stride = stride,
                     .padding = padding,
                     .weight_init = Initialiser::gaussian(0, deviation)},
                    name);
}
/// Keeps the map's size.
Tensor same(Tensor x, int64_t filters, const Size2& kernel, const std::string& name) {
  return conv(x, filters, kernel, name, 1, {kernel.height / 2, kernel.width / 2});
}

constexpr Size2 kWide{1, 7}, kHigh{7, 1};

/// Padding counts in the mean.
Tensor averaged(Tensor x, int64_t filters) {
  PoolAttributes a;
  a.kernel = 3;
  a.stride = 1;
  a.padding = 1;
  a.count_include_pad = true;
  return same(avg_pool(x, a), filters, 1, "branch_pool");
}

/// The blocks have torchvision's letters. A has two 3×3 for the 5×5 of GoogLeNet's third branch.
Tensor block_a(Tensor x, int64_t pooled) {
  const Tensor fives = same(same(x, 48, 1, "branch5x5_1"), 64, 5, "branch5x5_2");
  Tensor twice = same(same(x, 64, 1, "branch3x3dbl_1"), 96, 3, "branch3x3dbl_2");
  twice = same(twice, 96, 3, "branch3x3dbl_3");
  return concat({same(x, 64, 1, "branch1x1"), fives, twice, averaged(x, pooled)});
}

/// Halves the map.
Tensor block_b(Tensor x) {
  Tensor twice = same(same(x, 64, 1, "branch3x3dbl_1"), 96, 3, "branch3x3dbl_2");
  twice = conv(twice, 96, 3, "branch3x3dbl_3", 2);
  return concat({conv(x, 384, 3, "branch3x3", 2), twice, max_pool(x, 3, 2)});
}

/// 7×7 as 1×7 and 7×1.
Tensor block_c(Tensor x, int64_t width) {
  Tensor once = same(same(x, width, 1, "branch7x7_1"), width, kWide, "branch7x7_2");
  once = same(once, 192, kHigh, "branch7x7_3");
  Tensor twice = same(same(x, width, 1, "branch7x7dbl_1"), width, kHigh, "branch7x7dbl_2");
  twice = same(same(twice, width, kWide, "branch7x7dbl_3"), width, kHigh, "branch7x7dbl_4");
  twice = same(twice, 192, kWide, "branch7x7dbl_5");
  return concat({same(x, 192, 1, "branch1x1"), once, twice, averaged(x, 192)});
}

/// Halves the map.
Tensor block_d(Tensor x) {
  const Tensor threes = conv(same(x, 192, 1, "branch3x3_1"), 320, 3, "branch3x3_2", 2);
  Tensor sevens = same(same(x, 192, 1, "branch7x7x3_1"), 192, kWide, "branch7x7x3_2");
  sevens = conv(same(sevens, 192, kHigh, "branch7x7x3_3"), 192, 3, "branch7x7x3_4", 2);
  return concat({threes, sevens, max_pool(x, 3, 2)});
}

/// 1×3 and 3×1 side by side.
Tensor both_ways(Tensor x, const std::string& name) {
  return concat({same(x, 384, {1, 3}, name + "a"), same(x, 384, {3, 1}, name + "b")});
}

Tensor block_e(Tensor x) {
  const Tensor once = both_ways(same(x, 384, 1, "branch3x3_1"), "branch3x3_2");
  const Tensor twice = both_ways(same(same(x, 448, 1, "branch3x3dbl_1"), 384, 3, "branch3x3dbl_2"),
                                 "branch3x3dbl_3");
  return concat({same(x, 320, 1, "branch1x1"), once, twice, averaged(x, 192)});
}

template <typename Block, typename... Sizes>
Tensor mixed(Tensor x, const char* name, Block block, Sizes... sizes) {
  const auto scope = x.graph->scope(fmt::format("Mixed_{}", name));
  return block(x, sizes...);
}

/// The published one, over the maps before the last reduction.
Tensor auxiliary_logits(Tensor x, int64_t classes) {
  const auto scope = x.graph->scope("AuxLogits");
  x = conv(avg_pool(x, 5, 3), 128, 1, "conv0");
  x = conv(x, 768, 5, "conv1", 1, 0, 0.01f);
  Dense last = torch_default(Dense{.outputs = classes}, x.shape()[1]);
  last.weight_init = Initialiser::gaussian(0, 0.001f);
  return dense(global_avg_pool(x), last, "fc");
}

/// `see` is shown the maps before the last reduction.
template <typename See>
Tensor features(Tensor x, See see) {
  x = conv(x, 32, 3, "Conv2d_1a_3x3", 2);
  x = conv(x, 32, 3, "Conv2d_2a_3x3");
  x = max_pool(same(x, 64, 3, "Conv2d_2b_3x3"), 3, 2);
  x = same(x, 80, 1, "Conv2d_3b_1x1");
  x = max_pool(conv(x, 192, 3, "Conv2d_4a_3x3"), 3, 2);
  x = mixed(x, "5b", block_a, 32);
  x = mixed(x, "5c", block_a, 64);
  x = mixed(x, "5d", block_a, 64);
  x = mixed(x, "6a", block_b);
  x = mixed(x, "6b", block_c, 128);
  x = mixed(x, "6c", block_c, 160);
  x = mixed(x, "6d", block_c, 160);
  x = mixed(x, "6e", block_c, 192);
  see(x);
  x = mixed(x, "7a", block_d);
  x = mixed(x, "7b", block_e);
  return mixed(x, "7c", block_e);
}

/// The least side that leaves a pixel, also to the auxiliary head.
void expect_large_images(const Shape& images, bool auxiliary) {
  const int64_t least = auxiliary ? kSide : 75;
  if (images.rank() != 4 || std::min(images[2], images[3]) >= least) return;
  fail(
      "the model 'inception-v3{}' is for images of at least {} pixels a side, not {}x{}; scale a "
      "folder's images with `image-size`, or choose resnet-50",
      auxiliary ? ":aux=true" : "", least, images[2], images[3]);
}

NetOutputs logits(Tensor x, const ModelSpec& spec) {
  ModelOptions options("inception-v3", spec.options);
  const bool auxiliary = options.choice("aux", "false", {"false", "true"}) == "true";
  options.finish();
  expect_large_images(x.shape(), auxiliary);
  constexpr float kWeight = 0.4f;
  std::vector<AuxiliaryHead> heads;
  const auto add_head = [&](Tensor map) {
    if (auxiliary) heads.push_back({auxiliary_logits(map, spec.classes), kWeight});
  };
  x = dropout(global_avg_pool(features(x, add_head)), 0.5f);
  return {dense(x, torch_default(Dense{.outputs = spec.classes}, x.shape()[1]), "fc"), heads};
}

/// The published rate falls by 6 % every second epoch. It was 0.045 for RMSProp over 50 replicas of
/// a batch of 32, which says nothing of SGD's; here it begins as MobileNetV2's does.
Recipe recipe() {
  Recipe r = imagenet_recipe();
  r.image_size = kSide;
  r.epochs = 100;
  r.lr = 0.0028125;
  r.lr_schedule = "step";
  r.lr_milestones = {2};
  r.lr_gamma = 0.94;
  r.weight_decay = 4e-5;
  // As torchvision transforms the input of this net.
  r.normalisation = Normalisation{{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
  return r;
}

const RegisterModel kInception({
    .name = "inception-v3",
    .summary = "Inception-v3 for ImageNet, as torchvision's",
    .default_image = {3, kSide, kSide},
    .default_classes = 1000,
    .recipe = recipe(),
    .options_help = "aux=false (or true: the auxiliary head)",
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
