// Multinomial logistic regression: the baseline that a net has to beat.
#include "models/layers.h"
#include "models/limits.h"
#include "models/model.h"

namespace crossbow {
namespace {

Tensor logits(Tensor x, const ModelSpec& spec) {
  // What a step changes in the logits grows with the number of pixels, which, unlike the features
  // of a row, are seldom 0: the recipe's rate learns on 3x32x32, and has a loss of 16 instead of
  // 0.7 within six steps on 3x48x48. A net with pooling is what larger images need, so they are
  // refused rather than given a rate of their own.
  if (x.shape().elements_from(2) > 1) expect_inputs("logistic", x.shape(), 4096);
  return dense(x, Dense{.outputs = spec.classes, .weight_init = Initialiser::constant(0)}, "fc");
}

const RegisterModel kLogistic({
    .name = "logistic",
    .summary = "logistic regression: one fully connected layer",
    .default_image = {1, 28, 28},
    .default_classes = 10,
    .recipe = {.data = "digits", .epochs = 10, .lr = 0.01, .lr_schedule = "cosine"},
    .logits = logits,
    .sparse_rows = true,
});

}  // namespace
}  // namespace crossbow
