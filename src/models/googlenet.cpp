// GoogLeNet, Szegedy et al. 2014 ("Going deeper with convolutions").
// By default torchvision's form, whose names and weights it has: batch norm, and 3×3 where the
// paper has 5×5: 6,624,904 parameters. With variant=2014 the published net: biases, 5×5, local
// response norm: 6,998,552. With aux=true two auxiliary heads train along.
#include <fmt/format.h>

#include "models/basic_conv.h"
#include "models/imagenet.h"
#include "models/options.h"
#include "ops/adaptive_pool.h"
#include "ops/dense.h"
#include "ops/dropout.h"
#include "ops/local_response_norm.h"
#include "ops/shape_ops.h"

namespace crossbow {
namespace {

/// Outputs of its four branches, and of the 1×1 convolutions before the second and third.
struct Inception {
  const char* name;
  int64_t ones, before_threes, threes, before_fives, fives, pooled;
};

constexpr Inception kThird[] = {{"inception3a", 64, 96, 128, 16, 32, 32},
                                {"inception3b", 128, 128, 192, 32, 96, 64}};
constexpr Inception kFourth[] = {{"inception4a", 192, 96, 208, 16, 48, 64},
                                 {"inception4b", 160, 112, 224, 24, 64, 64},
                                 {"inception4c", 128, 128, 256, 24, 64, 64},
                                 {"inception4d", 112, 144, 288, 32, 64, 64},
                                 {"inception4e", 256, 160, 320, 32, 128, 128}};
constexpr Inception kFifth[] = {{"inception5a", 256, 160, 320, 32, 128, 128},
                                {"inception5b", 384, 192, 384, 48, 128, 128}};

struct Net {
  bool as_published;

  Tensor conv(Tensor x, int64_t filters, int64_t kernel, const std::string& name,
              int64_t stride = 1) const {
    Conv2d layer{.filters = filters, .kernel = kernel, .stride = stride, .padding = kernel / 2};
    if (!as_published) {
      layer.weight_init = Initialiser::gaussian(0, 0.01f);
      return basic_conv(x, layer, name);
    }
    layer.weight_init = Initialiser::xavier();
    layer.bias_init = Initialiser::constant(0.2f);
    const auto scope = x.graph->scope(name);
    return relu(conv2d(x, layer, "conv"));
  }

  Tensor inception(Tensor x, const Inception& i) const {
    const auto scope = x.graph->scope(i.name);
    const Tensor ones = conv(x, i.ones, 1, "branch1");
    const Tensor threes = conv(conv(x, i.before_threes, 1, "branch2.0"), i.threes, 3, "branch2.1");
    const Tensor fives =
        conv(conv(x, i.before_fives, 1, "branch3.0"), i.fives, as_published ? 5 : 3, "branch3.1");
    const Tensor pooled = conv(max_pool(x, 3, 1, 1), i.pooled, 1, "branch4.1");
    return concat({ones, threes, fives, pooled});
  }

  Tensor respond_locally(Tensor x) const { return as_published ? local_response_norm(x) : x; }

  /// Halves the map and rounds up.
  static Tensor halve(Tensor x, int64_t kernel = 3) {
    PoolAttributes a;
    a.kernel = kernel;
    a.ceil_mode = true;
    return max_pool(x, a);
  }

  /// Parts of 4×4, which images of 224 pixels give as published too, by windows of 5×5.
  Tensor auxiliary_logits(Tensor x, int64_t classes, const char* name) const {
    const auto scope = x.graph->scope(name);
    x = as_published ? avg_pool(x, 5, 3) : adaptive_avg_pool(x, 4);
    x = conv(x, 128, 1, "conv");
    const Dense first = with_weights({.outputs = 1024}, x.shape().elements_from(1));
    x = dropout(relu(dense(x, first, "fc1")), 0.7f);
    return dense(x, with_weights({.outputs = classes}, x.shape()[1]), "fc2");
  }

  Dense with_weights(Dense layer, int64_t inputs) const {
    layer = torch_default(layer, inputs);
    layer.weight_init = as_published ? Initialiser::xavier() : Initialiser::gaussian(0, 0.01f);
    return layer;
  }

  /// `see` is shown the maps behind each block.
  template <typename See>
  Tensor features(Tensor x, See see) const {
    x = respond_locally(halve(conv(x, 64, 7, "conv1", 2)));
    x = conv(conv(x, 64, 1, "conv2"), 192, 3, "conv3");
    x = halve(respond_locally(x));
    for (const Inception& i : kThird) x = inception(x, i);
    x = halve(x);
    for (const Inception& i : kFourth) see(x = inception(x, i), i);
    x = halve(x, as_published ? 3 : 2);
    for (const Inception& i : kFifth) x = inception(x, i);
    return global_avg_pool(x);
  }
};

NetOutputs logits(Tensor x, const ModelSpec& spec) {
  ModelOptions options("googlenet", spec.options);
  const Net net{options.choice("variant", "torchvision", {"torchvision", "2014"}) == "2014"};
  const bool auxiliary = options.choice("aux", "false", {"false", "true"}) == "true";
  options.finish();
  constexpr float kWeight = 0.3f;
  std::vector<AuxiliaryHead> heads;
  const auto add_head = [&](Tensor map, const Inception& behind) {
    const bool first = &behind == &kFourth[0], second = &behind == &kFourth[3];
    if (!auxiliary || (!first && !second)) return;
    heads.push_back({net.auxiliary_logits(map, spec.classes, first ? "aux1" : "aux2"), kWeight});
  };
  x = dropout(net.features(x, add_head), net.as_published ? 0.4f : 0.2f);
  return {dense(x, net.with_weights({.outputs = spec.classes}, x.shape()[1]), "fc"), heads};
}

/// The rate falls by 4 % every 8 epochs, as published. Where it begins is not: Caffe's 0.01 at
/// batch 32, in proportion to a batch of 16, its 250 epochs and weight decay.
Recipe recipe() {
  Recipe r = imagenet_recipe();
  r.epochs = 250;
  r.lr = 0.005;
  r.lr_schedule = "step";
  r.lr_milestones = {8};
  r.lr_gamma = 0.96;
  r.weight_decay = 2e-4;
  // As torchvision transforms the input of this net.
  r.normalisation = Normalisation{{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
  return r;
}

const RegisterModel kGoogLeNet({
    .name = "googlenet",
    .summary = "GoogLeNet for ImageNet, by default as torchvision's",
    .default_image = {3, 224, 224},
    .default_classes = 1000,
    .recipe = recipe(),
    .options_help =
        "variant=torchvision (or 2014: as published), aux=false (or true: two auxiliary "
        "heads)",
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
