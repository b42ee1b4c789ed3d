// Multinomial logistic regression: the baseline that a net has to beat.
#include "models/layers.h"
#include "models/model.h"

namespace crossbow {
namespace {

Tensor logits(Tensor x, const ModelSpec& spec) {
  return dense(x, Dense{.outputs = spec.classes, .weight_init = Initialiser::constant(0)}, "fc");
}

const RegisterModel kLogistic({
    .name = "logistic",
    .summary = "logistic regression: one fully connected layer",
    .default_image = {1, 28, 28},
    .default_classes = 10,
    .recipe = {.data = "digits", .epochs = 10, .lr = 0.01, .lr_schedule = "cosine"},
    .logits = logits,
});

}  // namespace
}  // namespace crossbow
