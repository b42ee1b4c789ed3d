// AlexNet. By default the form of Krizhevsky 2014 ("One weird trick"), which convnet-benchmarks and
// torchvision have: 61,100,840 parameters, with torchvision's names. With variant=2012 that of
// Krizhevsky et al. 2012, with groups and local response norm: 60,965,224.
#include "models/imagenet.h"
#include "models/options.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/local_response_norm.h"

namespace crossbow {
namespace {

constexpr int64_t kLastMaps = 6;

int64_t map_side(int64_t image) {
  constexpr WindowAxis kFirst{.kernel = 11, .stride = 4, .dilation = 1, .before = 2, .after = 2};
  constexpr WindowAxis kPool{.kernel = 3, .stride = 2, .dilation = 1, .before = 0, .after = 0};
  return kPool.positions(kPool.positions(kPool.positions(kFirst.positions(image))));
}

/// As PyTorch begins.
struct Form2014 {
  static Tensor conv(Tensor x, Conv2d layer, const char* name) {
    return relu(conv2d(x, torch_default(layer, x.shape()[1]), name));
  }
  static Tensor linear(Tensor x, int64_t outputs, const char* name) {
    return dense(x, torch_default(Dense{.outputs = outputs}, x.shape().elements_from(1)), name);
  }

  static Tensor logits(Tensor x, int64_t classes) {
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
    return linear(x, classes, "classifier.6");
  }
};

/// As published: weights by a Gaussian of 0.01, and biases of 1 where they feed ReLUs early.
struct Form2012 {
  static Tensor conv(Tensor x, Conv2d layer, float bias, const char* name) {
    layer.weight_init = Initialiser::gaussian(0, 0.01f);
    layer.bias_init = Initialiser::constant(bias);
    return relu(conv2d(x, layer, name));
  }
  static Tensor linear(Tensor x, int64_t outputs, float bias, const char* name) {
    return dense(x,
                 {.outputs = outputs,
                  .weight_init = Initialiser::gaussian(0, 0.01f),
                  .bias_init = Initialiser::constant(bias)},
                 name);
  }
  static Tensor respond_locally(Tensor x) {
    LocalResponseNormAttributes a;
    a.alpha = 5e-4f;  // the paper's 1e-4 is not divided by the size
    a.k = 2;
    return local_response_norm(x, a);
  }

  static Tensor logits(Tensor x, int64_t classes) {
    x = conv(x, {.filters = 96, .kernel = 11, .stride = 4, .padding = 2}, 0, "features.0");
    x = max_pool(respond_locally(x), 3, 2);
    x = conv(x, {.filters = 256, .kernel = 5, .padding = 2, .groups = 2}, 1, "features.4");
    x = max_pool(respond_locally(x), 3, 2);
    x = conv(x, {.filters = 384, .padding = 1}, 0, "features.8");
    x = conv(x, {.filters = 384, .padding = 1, .groups = 2}, 1, "features.10");
    x = conv(x, {.filters = 256, .padding = 1, .groups = 2}, 1, "features.12");
    x = average_to(max_pool(x, 3, 2), kLastMaps);
    x = dropout(relu(linear(x, 4096, 1, "classifier.0")), 0.5f);
    x = dropout(relu(linear(x, 4096, 1, "classifier.3")), 0.5f);
    return linear(x, classes, 0, "classifier.6");
  }
};

Tensor logits(Tensor x, const ModelSpec& spec) {
  ModelOptions options("alexnet", spec.options);
  const bool published = options.choice("variant", "2014", {"2014", "2012"}) == "2012";
  options.finish();
  expect_equal_windows("alexnet", x.shape(), kLastMaps, map_side);
  return published ? Form2012::logits(x, spec.classes) : Form2014::logits(x, spec.classes);
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
    .summary = "AlexNet for ImageNet, by default as torchvision's",
    .default_image = {3, 224, 224},
    .default_classes = 1000,
    .recipe = recipe(),
    .options_help = "variant=2014 (or 2012: groups and local response norm)",
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
