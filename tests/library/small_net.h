// The net, first weights and batches that Crossbow, PyTorch (pytorch_steps.py) and the scalar
// reference (reference_test.cpp) train alike: all come from one formula.
#pragma once

#include <crossbow/crossbow.h>

#include <cstdint>
#include <vector>

namespace small_net {

constexpr int64_t kBatch = 8, kChannels = 2, kSide = 8, kClasses = 5, kSteps = 20;
constexpr double kMomentum = 0.9, kWeightDecay = 0.01;

inline double rate(int64_t step) {
  return step < kSteps / 2 ? 0.1 : 0.05;
}

/// In [−1, 1].
inline float value(int64_t i, int64_t salt) {
  return static_cast<float>(static_cast<double>((i * 7919 + salt * 104729) % 2001 - 1000) / 1000);
}

struct Batch {
  std::vector<float> images;
  std::vector<int32_t> labels;
};

inline Batch batch(int64_t step) {
  Batch b;
  const int64_t values = kBatch * kChannels * kSide * kSide;
  for (int64_t i = 0; i < values; ++i) b.images.push_back(value(step * values + i, 0));
  for (int64_t row = 0; row < kBatch; ++row) {
    b.labels.push_back(static_cast<int32_t>((step + row * 3) % kClasses));
  }
  return b;
}

inline crossbow::Tensor logits(crossbow::Tensor images) {
  using namespace crossbow;
  Tensor x = conv2d(images, Conv2d{.filters = 6, .padding = 1, .bias = false}, "conv1");
  x = max_pool(relu(batch_norm(x, {}, "norm1")), 2);
  x = conv2d(x, Conv2d{.filters = 4, .kernel = 3}, "conv2");
  return dense(avg_pool(relu(x), 2), Dense{.outputs = kClasses}, "dense");
}

/// In the order of their numbers in the formula.
inline const std::vector<const char*>& parameters() {
  static const std::vector<const char*> names{"conv1.weight", "norm1.weight", "norm1.bias",
                                              "conv2.weight", "conv2.bias",   "dense.weight",
                                              "dense.bias"};
  return names;
}

inline std::vector<float> first_weights(size_t parameter, size_t elements) {
  const bool scale = parameter == 1;  // of batch norm
  std::vector<float> values;
  for (size_t i = 0; i < elements; ++i) {
    const double v = value(static_cast<int64_t>(i), static_cast<int64_t>(parameter) + 1);
    values.push_back(static_cast<float>(scale ? 1 + v / 10 : v / 3));
  }
  return values;
}

inline crossbow::SessionOptions options(const std::string& device) {
  crossbow::SessionOptions o;
  o.image = {kChannels, kSide, kSide};
  o.classes = kClasses;
  o.batch = kBatch;
  o.lr = rate(0);
  o.momentum = kMomentum;
  o.weight_decay = kWeightDecay;
  o.device = device;
  o.deterministic = true;
  return o;
}

/// With the first weights.
inline crossbow::Session session(const std::string& device) {
  crossbow::Session session(logits, options(device));
  for (size_t p = 0; p < parameters().size(); ++p) {
    const size_t elements = session.get(parameters()[p]).size();
    session.set(parameters()[p], first_weights(p, elements));
  }
  return session;
}

/// The loss of each step, each at its rate.
inline std::vector<double> train(crossbow::Session& session) {
  std::vector<double> losses;
  for (int64_t step = 0; step < kSteps; ++step) {
    const Batch b = batch(step);
    session.set_lr(rate(step));
    losses.push_back(static_cast<double>(session.step(b.images, b.labels)));
  }
  return losses;
}

}  // namespace small_net
