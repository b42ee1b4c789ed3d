// Regression, a problem small enough to train by hand: with the output w·x the loss is a quadratic
// of the weights; with v·tanh(W x + b) this is a small net.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "data/batch_source.h"
#include "device/host_window.h"
#include "learner/synchronous_engine.h"
#include "models/layers.h"
#include "ops/activation.h"
#include "ops/loss.h"
#include "plan/row_major.h"
#include "support/fault.h"

namespace crossbow::testing {

constexpr int64_t kInputs = 5000;  // more than an exchange computes at a time
constexpr int64_t kRows = 4, kLastRows = 2, kBatches = 11;

/// Of the net; without hidden units it is linear.
inline int64_t weights_with(int64_t hidden) {
  return hidden == 0 ? kInputs : hidden * (kInputs + 2);
}

inline Graph regression(int64_t hidden, bool faulty = false,
                        const std::vector<int64_t>& more_hidden = {}) {
  Graph graph("regression");
  Tensor x = input(graph, {kRows, kInputs}, 0, DType::f32, "images");
  const Tensor target = input(graph, {kRows, 1}, 1, DType::f32, "labels");
  if (faulty) x = fault(x);
  int layer = 1;
  if (hidden > 0) x = tanh(dense(x, Dense{.outputs = hidden}, "hidden"));
  for (const int64_t units : more_hidden) {
    x = tanh(dense(x, Dense{.outputs = units}, fmt::format("hidden{}", ++layer)));
  }
  const Tensor y = dense(x, Dense{.outputs = 1, .bias = false}, "w");
  graph.set_output("loss", mean_squared_error(y, target).value);
  return graph;
}

/// The same batches again and again, every last one short. Each may come late by a random time.
class QuadraticData : public data::BatchSource {
 public:
  QuadraticData() {
    for (int64_t b = 0; b < kBatches; ++b) {
      x_.emplace_back(kRows * kInputs * sizeof(float));
      target_.emplace_back(kRows * sizeof(float));
      Rng rng(3, Purpose::synthetic, static_cast<uint32_t>(b));
      for (int64_t i = 0; i < kRows * kInputs; ++i) x(b)[i] = rng.uniform(-0.02f, 0.03f);
      for (int64_t r = 0; r < kRows; ++r) target(b)[r] = rng.uniform(-1, 2);
      batches_.push_back({b, rows(b), x(b), reinterpret_cast<const int32_t*>(target(b))});
    }
  }

  static int64_t rows(int64_t b) { return b == kBatches - 1 ? kLastRows : kRows; }
  static constexpr int64_t kEpochRows = (kBatches - 1) * kRows + kLastRows;
  float* x(int64_t b) const { return x_[static_cast<size_t>(b)].as<float>(); }
  float* target(int64_t b) const { return target_[static_cast<size_t>(b)].as<float>(); }

  const data::Batch& acquire(int64_t index) override {
    ++acquired;
    if (index == bad) fail("batch {} is damaged", index);
    if (longest_delay_us > 0) {
      Rng rng(seed, Purpose::synthetic, 0, static_cast<uint64_t>(index));
      const int spread = longest_delay_us - shortest_delay_us;
      const auto more = static_cast<int>(rng.below(static_cast<uint32_t>(spread)));
      std::this_thread::sleep_for(std::chrono::microseconds(shortest_delay_us + more));
    }
    return batches_[static_cast<size_t>(index % kBatches)];
  }
  void release(const data::Batch&) override { ++released; }

  /// The gradient at w, and the loss. The weights of the net are W by rows, b and v.
  std::vector<double> gradient(int64_t b, const std::vector<double>& w, int64_t hidden,
                               double& loss) const {
    std::vector<double> g(w.size());
    const auto n = static_cast<double>(rows(b));
    loss = 0;
    if (hidden > 0) {
      for (int64_t r = 0; r < rows(b); ++r) net_gradient(b, r, w.data(), hidden, loss, g.data());
      return g;
    }
    for (int64_t r = 0; r < rows(b); ++r) {
      const float* row = x(b) + r * kInputs;
      double error = -target(b)[r];
      for (int64_t i = 0; i < kInputs; ++i) error += w[i] * row[i];
      loss += error * error / n;
      for (int64_t i = 0; i < kInputs; ++i) g[i] += 2 * error * row[i] / n;
    }
    return g;
  }

  int shortest_delay_us = 0, longest_delay_us = 0;  // the latter 0: none
  uint64_t seed = 0;
  int64_t bad = -1;
  /// Batches whose steps have begun, and whose steps are over.
  std::atomic<int64_t> acquired{0}, released{0};

 private:
  void net_gradient(int64_t b, int64_t r, const double* w, int64_t hidden, double& loss,
                    double* g) const {
    const auto n = static_cast<double>(rows(b));
    const float* row = x(b) + r * kInputs;
    const int64_t bias = hidden * kInputs, out = bias + hidden;
    std::vector<double> active(w + bias, w + out);
    double error = -target(b)[r];
    for (int64_t h = 0; h < hidden; ++h) {
      for (int64_t i = 0; i < kInputs; ++i) active[h] += w[h * kInputs + i] * row[i];
      active[h] = std::tanh(active[h]);
      error += w[out + h] * active[h];
    }
    loss += error * error / n;
    for (int64_t h = 0; h < hidden; ++h) {
      g[out + h] += 2 * error * active[h] / n;
      const double d = 2 * error / n * w[out + h] * (1 - active[h] * active[h]);
      g[bias + h] += d;
      for (int64_t i = 0; i < kInputs; ++i) g[h * kInputs + i] += d * row[i];
    }
  }

  std::vector<Buffer> x_, target_;
  std::vector<data::Batch> batches_;
};

/// What the engine is told.
struct QuadraticRun {
  std::string sync;
  SyncOptions options;  // learners of all devices together
  double clip_norm = 0;
  int workers = 2;  // of each device, at most
  int devices = 1;
  int64_t splits = 1;
  std::string device = "ref";
  int64_t hidden = 0;                     // units of the net
  std::vector<int64_t> more_hidden = {};  // of its further layers
  double weight_decay = 0;
  std::optional<Optimizer> optimizer = {};  // else SGD, with the options' momentum
  World* world = nullptr;                   // of ranks with so many learners each

  Optimizer used_optimizer() const {
    return optimizer.value_or(make_sgd({options.momentum, weight_decay, options.nesterov}));
  }
};

inline double quadratic_rate(int64_t batch) {
  return 0.05 / (1 + 0.1 * static_cast<double>(batch));
}

/// The i-th weight that training begins with.
inline float first_weight(int64_t i) {
  return static_cast<float>(i % 7) * 0.1f - 0.3f;
}

inline void write_first_weights(const ParameterLayout& layout, const Replica& replica) {
  int64_t i = 0;
  for (const ParameterLayout::Slot& slot : layout.parameters) {
    std::vector<float> values(static_cast<size_t>(slot.layout.shape.elements()));
    for (float& value : values) value = first_weight(i++);
    write_tensor(slot.layout, replica.parameters.as<float>() + slot.offset,
                 std::span<const float>(values));
  }
}

/// Of a device's vector, row-major and without padding.
inline std::vector<float> weights_at(const ParameterLayout& layout, Device& device,
                                     const std::byte* data) {
  const HostWindow window(device, data,
                          static_cast<size_t>(layout.parameter_elements) * sizeof(float));
  std::vector<float> all(static_cast<size_t>(layout.trained()));
  std::span<float> rest = all;
  for (const ParameterLayout::Slot& slot : layout.parameters) {
    const auto n = static_cast<size_t>(slot.layout.shape.elements());
    read_tensor(slot.layout, reinterpret_cast<const float*>(window.data()) + slot.offset,
                rest.first(n));
    rest = rest.subspan(n);
  }
  return all;
}

/// `losses` are the segment's.
inline Segment quadratic_segment(QuadraticData& data, std::span<float> losses, int64_t first = 0,
                                 int64_t batches = kBatches) {
  Segment s;
  s.source = &data;
  s.epoch_batches = kBatches;
  s.first_batch = first;
  s.batches = batches;
  s.rate = quadratic_rate;
  s.stop = [] { return false; };
  s.losses = losses;
  s.progress = [](int64_t) {};
  return s;
}

/// An engine, the model that it was compiled from, and the losses of its last epoch.
class QuadraticEngine {
 public:
  explicit QuadraticEngine(const QuadraticRun& run)
      : kind_(run.device),
        learners_of_a_device_(static_cast<int>(run.options.learners) / run.devices),
        model_(regression(run.hidden, false, run.more_hidden), options(run)),
        engine_(compiled(run), sync(run), engine(run)) {
    Replica first(engine_.layout());
    write_first_weights(engine_.layout(), first);
    engine_.start_from(first);
  }

  Segment segment(QuadraticData& data, int64_t first = 0, int64_t batches = kBatches) {
    return quadratic_segment(data, losses, first, batches);
  }
  int64_t run(QuadraticData& data) { return engine_.run(segment(data)); }

  std::vector<float> z() {
    return weights_at(engine_.layout(), engine_.device(), engine_.snapshot().parameters.data());
  }
  std::vector<float> weights(int j) {
    Device& device = find_device(kind_, j / learners_of_a_device_);
    return weights_at(engine_.layout(), device, engine_.weights(j));
  }
  SynchronousEngine& operator*() { return engine_; }
  SynchronousEngine* operator->() { return &engine_; }

  std::vector<float> losses = std::vector<float>(kBatches);

 private:
  static bool averages_gradients(const QuadraticRun& run) {
    const auto algorithm = sync(run);
    return algorithm && algorithm->traits().averages_gradients;
  }
  static CompileOptions options(const QuadraticRun& run) {
    CompileOptions o;
    o.device = run.device;
    if (run.clip_norm == 0 && run.splits == 1 && !averages_gradients(run)) {
      o.update = run.used_optimizer();
    }
    return o;
  }
  static std::unique_ptr<const SyncAlgorithm> sync(const QuadraticRun& run) {
    return run.sync == "none" ? nullptr : make_sync(run.sync, run.options);
  }
  static EngineOptions engine(const QuadraticRun& run) {
    EngineOptions e;
    e.learners = static_cast<int>(run.options.learners) / run.devices;
    e.threads = {run.devices, std::min(run.workers, e.learners), 1, {}};
    e.batch = batch(run);
    e.optimizer = run.used_optimizer();
    e.clip_norm = run.clip_norm;
    e.world = run.world;
    return e;
  }
  static BatchShape batch(const QuadraticRun& run) {
    return {kRows, kLastRows, run.splits, BatchFormat::dense(kInputs)};
  }
  CompiledModel& compiled(const QuadraticRun& run) {
    for (const int64_t rows : batch(run).program_rows()) model_.training(rows);
    return model_;
  }
  const std::string kind_;
  const int learners_of_a_device_;
  CompiledModel model_;
  SynchronousEngine engine_;
};

}  // namespace crossbow::testing
