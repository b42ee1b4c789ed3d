// How a step changes the weights: an optimizer is a rule, the slots that the rule keeps for a
// replica, and its numbers. A rule is a loop for each kind of device (RegisterUpdate in
// device/host_math.h), and a function that makes optimizers of it (device/sgd.h).
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/buffer.h"

namespace crossbow {

/// What a rule may have at most.
inline constexpr size_t kMostSlots = 2, kMostCoefficients = 4;

/// Known by its address. Leaves zero where weights, gradient and slots are zero: in the padding.
struct UpdateRule {
  std::string_view name;
  /// Each call is of one whole parameter, whose norms the rule needs; else of any spans.
  bool by_parameter = false;
  /// The first slot is the weights that count, which others read and change meanwhile.
  bool live = false;
};

/// Added to the gradient, times the weights.
struct WeightDecay {
  double factor;
  /// Else not of biases and of norms' scales and shifts: of no parameter with one dimension.
  bool of_vectors;

  WeightDecay(double factor = 0, bool of_vectors = true)  // NOLINT: a number is one of all
      : factor(factor), of_vectors(of_vectors) {}
  friend bool operator==(const WeightDecay&, const WeightDecay&) = default;
};

/// The numbers of one step: plain data, which lies in the step block.
struct UpdateStep {
  double lr = 0, weight_decay = 0;
  double pull = 0;                                       // towards a central model
  std::array<double, kMostCoefficients> coefficients{};  // the rule's own
};

struct Optimizer {
  const UpdateRule* rule;
  /// Names of flat vectors, shaped as the parameters and zero at first.
  std::vector<std::string> slots;
  WeightDecay weight_decay = {};
  std::array<double, kMostCoefficients> coefficients{};
  /// Of the first slot, if it is a sum of the gradients so far in which each step multiplies those
  /// before by this; else 0.
  double gradient_decay = 0;
  friend bool operator==(const Optimizer&, const Optimizer&) = default;

  UpdateStep at(double lr, double pull = 0) const {
    return {lr, weight_decay.factor, pull, coefficients};
  }
};

/// Null beyond those that there are.
using SlotAddresses = std::array<void*, kMostSlots>;
/// Of each slot's byte `first`.
inline SlotAddresses addresses_of(std::span<const Buffer> slots, int64_t first = 0) {
  SlotAddresses addresses{};
  for (size_t i = 0; i < slots.size(); ++i) addresses[i] = slots[i].data() + first;
  return addresses;
}

}  // namespace crossbow
