// A run small enough to do often: a folder of little pictures and a net with every kind of state.
#pragma once

#include <atomic>
#include <string>

#include "core/rng.h"
#include "data/files.h"
#include "models/layers.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "support/fault.h"
#include "train/train.h"

namespace crossbow::testing {

/// 70 training images and 30 test images, or as many as asked for, of 8 × 8 pixels in MNIST's
/// format: noise, brighter where the class says. With batches of 16 the last of the 70's has 6.
class TinyData {
 public:
  explicit TinyData(uint32_t training_images = 70, uint32_t test_images = 30) {
    write("train", training_images);
    write("t10k", test_images);
  }
  std::string spec() const { return "mnist:" + folder_.path().string(); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void write(const std::string& part, uint32_t images) {
    Rng rng(1, Purpose::synthetic, images);
    data::FileBytes pixels, labels;
    for (uint32_t i = 0; i < images; ++i) {
      const auto label = static_cast<uint8_t>(i % 10);
      labels.push_back(label);
      for (uint32_t p = 0; p < 64; ++p) {
        pixels.push_back(static_cast<uint8_t>(rng.below(100) + (p / 6 == label ? 150 : 0)));
      }
    }
    data::write_file(path() / (part + "-images-idx3-ubyte"),
                     data::idx_file({images, 8, 8}, pixels));
    data::write_file(path() / (part + "-labels-idx1-ubyte"), data::idx_file({images}, labels));
  }

  data::TemporaryFolder folder_;
};

inline Tensor tiny_net(Tensor images) {
  const Conv2d conv{.filters = 5, .padding = 1, .bias = false};
  Tensor x = relu(batch_norm(conv2d(images, conv)));
  x = dropout(max_pool(x, 2), 0.2f);
  return dense(x, Dense{.outputs = 10});
}

/// Its steps fail where a test says so.
inline Tensor faulty_tiny_net(Tensor images) {
  return tiny_net(fault(images));
}

/// Three epochs of 5 steps.
inline TrainOptions tiny_options(const TinyData& data, const std::string& device) {
  TrainOptions o;
  o.data = data.spec();
  o.device = device;
  o.sync = "none";
  o.threads_per_learner = 1;
  o.epochs = 3;
  o.lr = 0.05;
  o.lr_schedule = "multistep";
  o.lr_milestones = {{1.5}};
  o.warmup = 0.3;
  o.weight_decay = 1e-4;
  o.pad = 1;
  o.mirror = true;
  o.log_every = 2;
  o.deterministic = true;
  return o;
}

/// Asks the run to stop when it has asked `calls` times whether it should.
class StopAfter : public Observer {
 public:
  explicit StopAfter(int calls) : left_(calls) {}
  bool stop_requested() override { return left_-- <= 0; }
  void note(std::string_view text) override { notes += std::string(text) + '\n'; }

  std::string notes;

 private:
  std::atomic<int> left_;
};

}  // namespace crossbow::testing
