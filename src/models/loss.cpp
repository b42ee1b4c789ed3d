#include "models/loss.h"

#include <cmath>

#include "ops/loss.h"

namespace crossbow {
namespace {

struct Append {
  Tensor logits, labels;

  Tensor operator()(const CrossEntropyLoss& loss) const {
    return softmax_cross_entropy(logits, labels, loss.label_smoothing);
  }
  Tensor operator()(const BCEWithLogitsLoss&) const {
    return sigmoid_cross_entropy(logits, labels);
  }
  Tensor operator()(const MSELoss&) const { return mean_squared_error(logits, labels); }
};

}  // namespace

Tensor append_loss(const Loss& loss, Tensor logits, Tensor labels) {
  return std::visit(Append{logits, labels}, loss);
}

double loss_of_zeros(const Loss& loss, int64_t classes, double labels) {
  if (std::holds_alternative<BCEWithLogitsLoss>(loss)) return std::log(2.0);
  if (std::holds_alternative<MSELoss>(loss)) return labels / static_cast<double>(classes);
  return std::log(static_cast<double>(classes));
}

double loss_of_a_guess(const Loss& loss, int64_t classes, double labels) {
  const double p = labels / static_cast<double>(classes);
  if (std::holds_alternative<BCEWithLogitsLoss>(loss)) {
    return -p * std::log(p) - (p < 1 ? (1 - p) * std::log1p(-p) : 0);
  }
  if (std::holds_alternative<MSELoss>(loss)) return p * (1 - p);
  return std::log(static_cast<double>(classes));
}

}  // namespace crossbow
