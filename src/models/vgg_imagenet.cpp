// VGG for ImageNet, Simonyan & Zisserman 2014: configurations A, B, D and E, with the layers' names
// of torchvision, whose weights they take. With bn=true batch norm follows each convolution.
#include <fmt/format.h>

#include "models/imagenet.h"
#include "models/options.h"
#include "ops/activation.h"
#include "ops/dropout.h"

namespace crossbow {
namespace {

struct Form {
  int depth;
  int convolutions[5];  // of each stage
};

constexpr Form kForms[] = {
    {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};
constexpr int64_t kWidths[] = {64, 128, 256, 512, 512};

/// Each layer has the number that it has in torchvision's list, in which ReLUs and pools count.
Tensor features(Tensor x, const Form& form, bool with_norm) {
  const auto scope = x.graph->scope("features");
  int number = 0;
  for (int stage = 0; stage < 5; ++stage) {
    const Conv2d conv{.filters = kWidths[stage], .padding = 1, .weight_init = Initialiser::he()};
    for (int unit = 0; unit < form.convolutions[stage]; ++unit) {
      x = conv2d(x, conv, fmt::format("{}", number++));
      if (with_norm) x = batch_norm(x, {}, fmt::format("{}", number++));
      x = relu(x);
      ++number;
    }
    x = max_pool(x, 2);
    ++number;
  }
  return x;
}

template <int form>
Tensor logits(Tensor x, const ModelSpec& spec) {
  const std::string name = fmt::format("vgg-{}-imagenet", kForms[form].depth);
  ModelOptions options(name, spec.options);
  const bool with_norm = options.choice("bn", "false", {"false", "true"}) == "true";
  options.finish();

  expect_equal_windows(name, x.shape(), 7, [](int64_t image) { return image / 32; });
  x = average_to(features(x, kForms[form], with_norm), 7);
  const Initialiser init = Initialiser::gaussian(0, 0.01f);
  const Dense hidden{.outputs = 4096, .weight_init = init};
  x = dropout(relu(dense(x, hidden, "classifier.0")), 0.5f);
  x = dropout(relu(dense(x, hidden, "classifier.3")), 0.5f);
  return dense(x, Dense{.outputs = spec.classes, .weight_init = init}, "classifier.6");
}

/// The published rate, 0.01 at batch 256, in proportion to a batch of 16. It was divided by ten
/// three times in 74 epochs; when is not published.
Recipe recipe() {
  Recipe r = imagenet_recipe();
  r.epochs = 74;
  r.lr = 0.000625;
  r.lr_milestones = {20, 40, 60};
  r.weight_decay = 5e-4;
  return r;
}

template <int form>
Model model() {
  const int depth = kForms[form].depth;
  return {
      .name = fmt::format("vgg-{}-imagenet", depth),
      .summary = fmt::format("VGG-{} for ImageNet, as torchvision's", depth),
      .default_image = {3, 224, 224},
      .default_classes = 1000,
      .recipe = recipe(),
      .options_help = "bn=false (or true: batch norm after each convolution)",
      .logits = logits<form>,
  };
}

const RegisterModel kVggs[] = {RegisterModel(model<0>()), RegisterModel(model<1>()),
                               RegisterModel(model<2>()), RegisterModel(model<3>())};

}  // namespace
}  // namespace crossbow
