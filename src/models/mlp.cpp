// A multi-layer perceptron. By default the net of the CPU+GPU Hogbatch papers (Ma, Rusu et al.):
// eight hidden layers of 512 sigmoid units, on 300 features and two classes.
#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "models/layers.h"
#include "models/model.h"
#include "models/options.h"
#include "ops/activation.h"
#include "ops/gelu.h"
#include "ops/sparse_rows.h"

namespace crossbow {
namespace {

/// So drawn that signals and gradients neither vanish nor explode through many layers: Glorot &
/// Bengio 2010 for tanh, four times as wide for the sigmoid, whose slope at 0 is a quarter; He et
/// al. 2015 for ReLU and GELU.
Initialiser weights_for(const std::string& activation, int64_t inputs, int64_t outputs) {
  if (activation == "relu" || activation == "gelu") {
    return Initialiser::he(Initialiser::Fan::in);
  }
  if (activation == "tanh") return Initialiser::xavier(Initialiser::Fan::average);
  if (activation == "sigmoid") {
    const float range = 4 * std::sqrt(6.0f / static_cast<float>(inputs + outputs));
    return Initialiser::uniform(-range, range);
  }
  fail("the model 'mlp' has no weights for the activation '{}'", activation);
}

Tensor activate(Tensor x, const std::string& activation) {
  if (activation == "relu") return relu(x);
  if (activation == "tanh") return tanh(x);
  if (activation == "gelu") return gelu(x);
  if (activation == "sigmoid") return sigmoid(x);
  fail("the model 'mlp' has no activation '{}'", activation);
}

Tensor logits(Tensor x, const ModelSpec& spec) {
  ModelOptions options("mlp", spec.options);
  const int64_t layers = options.integer("layers", 8, 1, 1000);
  const int64_t width = options.integer("width", 512, 1, 65536);
  const std::string activation =
      options.choice("activation", "sigmoid", {"sigmoid", "tanh", "relu", "gelu"});
  const bool bias = options.integer("bias", 1, 0, 1) != 0;
  options.finish();

  // The first layer reads every pixel; its weights are drawn the smaller the more there are.
  for (int64_t i = 1; i <= layers; ++i) {
    const Initialiser init = weights_for(activation, features_of(x), width);
    x = dense(x, Dense{.outputs = width, .bias = bias, .weight_init = init},
              fmt::format("fc{}", i));
    x = activate(x, activation);
  }
  return dense(x, Dense{.outputs = spec.classes, .bias = bias}, fmt::format("fc{}", layers + 1));
}

const Recipe kRecipe{.data = "digits", .epochs = 10, .lr = 0.01, .lr_schedule = "cosine"};

const RegisterModel kMlp({
    .name = "mlp",
    .summary = "multi-layer perceptron, by default of 8 hidden layers of 512 sigmoid units",
    .default_image = {300},
    .default_classes = 2,
    .recipe = kRecipe,
    .options_help =
        "layers=8 (hidden), width=512 (units in each), activation=sigmoid|tanh|relu|gelu, bias=1|0",
    .logits = logits,
    .sparse_rows = true,
});

}  // namespace
}  // namespace crossbow
