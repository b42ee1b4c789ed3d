#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "data/files.h"
#include "models/model.h"
#include "support/error_text.h"
#include "support/full_disk.h"
#include "support/text.h"
#include "train/encoded.h"
#include "train/forged.h"
#include "train/recipe.h"
#include "train/safetensors.h"

namespace crossbow {
namespace {

using data::TemporaryFolder;
using testing::decoded;
using testing::encoded;
using testing::error_of;
using testing::expect_says;
using testing::file_of;

Checkpoint sample(int64_t epoch = 3) {
  Checkpoint c;
  c.options = with_recipe({}, find_model("lenet").recipe);
  c.image = {1, 28, 28};
  c.classes = 2;
  c.class_names = {"ca\xC3\xB1\"on", "dog"};
  c.normalisation = Normalisation{{0.1f, 0.2f, 0.3f}, {0.4f, 0.5f, 0.6f}};
  c.samples = 60000;
  c.position = {.epoch = epoch,
                .batch = 17,
                .step = 12345,
                .loss_sum = 0.1 + 0.2,
                .seconds = 1.5,
                .wall_seconds = 9.5,
                .changes = 2};
  c.history.push_back({.epoch = 1, .train_loss = 0.3, .test_loss = 0.2, .test_accuracy = 0.9});
  c.history.push_back({.epoch = 2, .train_loss = 0.2});
  c.plan = {{"conv1 forward", "jit_wino"}, {"conv2 \"x\"", "jit"}};
  c.metrics_bytes = 321;
  c.turns_bytes = 123;
  using Role = Checkpoint::Role;
  const auto add = [&](const char* name, Role role, int64_t index, const Shape& shape,
                       std::vector<float> values) {
    const auto read = [values](int64_t first, std::span<float> to) {
      std::copy_n(values.begin() + first, to.size(), to.begin());
    };
    c.tensors.push_back({name, role, index, shape, read});
  };
  add("conv.weight", Role::parameter, 0, {2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  add("conv.weight", Role::slot, 3, {2, 1, 2, 2}, {8, 7, 6, 5, 4, 3, 2, 1});
  c.tensors.back().slot = "m";
  add("mean", Role::state, 0, {3}, {0.5f, -0.0f, 1e-40f});
  return c;
}

std::string decode_error(const std::vector<uint8_t>& bytes) {
  return error_of([&] { decoded(bytes); });
}

TEST(Checkpoint, ComesBackWhole) {
  const Checkpoint c = sample(), d = decoded(encoded(c));
  EXPECT_EQ(d.options.model, "lenet");
  EXPECT_EQ(d.options.lr, c.options.lr);
  EXPECT_EQ(d.metrics_bytes, c.metrics_bytes);
  EXPECT_EQ(d.turns_bytes, c.turns_bytes);
  EXPECT_EQ(d.image, c.image);
  EXPECT_EQ(d.class_names, c.class_names);
  EXPECT_EQ(d.normalisation->mean, c.normalisation->mean);
  EXPECT_EQ(d.normalisation->std, c.normalisation->std);
  EXPECT_EQ(d.samples, 60000);
  EXPECT_EQ(d.position.loss_sum, 0.1 + 0.2);
  EXPECT_EQ(d.position.step, 12345);
  ASSERT_EQ(d.history.size(), 2u);
  EXPECT_EQ(d.history[0].test_accuracy, 0.9);
  EXPECT_FALSE(d.history[1].test_accuracy);
  EXPECT_EQ(d.position.wall_seconds, 9.5);
  EXPECT_EQ(d.position.changes, 2);
  EXPECT_EQ(d.plan, c.plan);
  ASSERT_EQ(d.tensors.size(), 3u);
  EXPECT_EQ(d.tensors[1].role, Checkpoint::Role::slot);
  EXPECT_EQ(d.tensors[1].slot, "m");
  EXPECT_EQ(d.tensors[1].index, 3);
  EXPECT_EQ(d.tensors[1].values(), c.tensors[1].values());
  EXPECT_EQ(encoded(d), encoded(c));
}

/// A name may look like those that tell whose a tensor is.
TEST(Checkpoint, KeepsWhoseATensorIs) {
  Checkpoint c = sample();
  const auto zeros = [](int64_t, std::span<float> to) { std::fill(to.begin(), to.end(), 0.0f); };
  using Role = Checkpoint::Role;
  const Checkpoint::StoredTensor kept[] = {{"a/b.weight", Role::parameter, 0, {1}, zeros},
                                           {"learner.weights/b", Role::parameter, 0, {1}, zeros},
                                           {"learner.01.weights/b", Role::state, 0, {1}, zeros},
                                           {"a/b", Role::weights, 7, {1}, zeros},
                                           {"a/b", Role::learner_state, 0, {1}, zeros},
                                           {"central.0/b", Role::central, 12, {1}, zeros},
                                           {"b", Role::slot, 2, {1}, zeros, "v.hat"}};
  c.tensors.assign(std::begin(kept), std::end(kept));
  const std::vector<uint8_t> file = encoded(c);
  const Checkpoint d = decoded(file);
  ASSERT_EQ(d.tensors.size(), std::size(kept));
  for (size_t i = 0; i < std::size(kept); ++i) {
    EXPECT_EQ(d.tensors[i].name, kept[i].name);
    EXPECT_EQ(d.tensors[i].role, kept[i].role) << kept[i].name;
    EXPECT_EQ(d.tensors[i].index, kept[i].index) << kept[i].name;
    EXPECT_EQ(d.tensors[i].slot, kept[i].slot) << kept[i].name;
  }
  for (const char* key : {"a/b.weight", "learner.7.weights/a/b", "learner.0.state/a/b",
                          "central.12/central.0/b", "learner.2.slot.v.hat/b"}) {
    EXPECT_TRUE(testing::header_of(file).contains(key)) << key;
  }
  c.tensors = {{"learner.3.weights/b", Role::parameter, 0, {1}, zeros}};
  expect_says(error_of([&] { encoded(c); }), "cannot save learner.3.weights/b");
  c.tensors = {{"b", Role::slot, 2, {1}, zeros, "m/v"}};
  expect_says(error_of([&] { encoded(c); }), "cannot save learner.2.slot.m/v/b");
}

TEST(Checkpoint, EveryChangedByteIsNoticed) {
  const std::vector<uint8_t> good = encoded(sample());
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<uint8_t> bad = good;
    bad[i] ^= 0x10;
    EXPECT_NE(decode_error(bad), "no error") << i;
  }
}

TEST(Checkpoint, EveryCutIsNoticed) {
  const std::vector<uint8_t> good = encoded(sample());
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_NE(decode_error({good.begin(), good.begin() + static_cast<ptrdiff_t>(n)}), "no error")
        << n;
  }
}

TEST(Checkpoint, SaysWhatIsWrong) {
  expect_says(decode_error({}), "not a checkpoint of crossbow");
  std::vector<uint8_t> newer = encoded(sample());
  newer = testing::with_text(newer, "crossbow_checkpoint", "9");
  expect_says(decode_error(newer), "format version 9");
  std::vector<uint8_t> damaged = encoded(sample());
  damaged.back() ^= 1;
  expect_says(decode_error(damaged), "checksum");
  std::vector<uint8_t> weights;
  encode_safetensors({}, {{"format", "pt"}}, testing::sink_of(weights));
  expect_says(decode_error(weights), "its metadata have no crossbow_checkpoint");
}

std::string decode_header_error(const std::vector<uint8_t>& bytes) {
  return error_of([&] { decode_header(file_of(bytes)); });
}

TEST(Checkpoint, TheHeaderIsReadWithoutTheTensors) {
  std::vector<uint8_t> bytes = encoded(sample());
  EXPECT_EQ(encoded(decode_header(file_of(bytes))), bytes);
  std::vector<uint8_t> damaged = bytes;
  damaged.back() ^= 1;
  EXPECT_NO_THROW(decode_header(file_of(damaged)));
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_NE(decode_header_error({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n)}),
              "no error")
        << n;
  }
}

TEST(Checkpoint, NamesOfClassesNeedNotBeText) {
  Checkpoint c = sample();
  c.class_names[0] = "\xFF";
  EXPECT_EQ(decoded(encoded(c)).class_names[0], "\xEF\xBF\xBD");
  c.class_names.pop_back();
  expect_says(decode_error(encoded(c)), "it names 1 of 2 classes");
  c.class_names.clear();
  c.normalisation.reset();
  EXPECT_FALSE(decoded(encoded(c)).normalisation);
}

class CheckpointFolder : public ::testing::Test {
 protected:
  Checkpoint load() {
    return load_checkpoint(folder_.path(), [&](std::string_view text) { warning_ = text; });
  }
  void damage(const char* name) {
    std::ofstream(folder_.path() / name, std::ios::trunc) << "nonsense";
  }
  TemporaryFolder folder_;
  std::string warning_;
};

TEST_F(CheckpointFolder, KeepsTheOneBefore) {
  save_checkpoint(folder_.path(), sample(1));
  save_checkpoint(folder_.path(), sample(2));
  save_checkpoint(folder_.path(), sample(3));
  EXPECT_EQ(load().position.epoch, 3);
  EXPECT_EQ(warning_, "");
  damage("checkpoint");
  EXPECT_EQ(load().position.epoch, 2);
  expect_says(warning_, "not a checkpoint of crossbow");
  std::filesystem::remove(folder_.path() / "checkpoint");
  EXPECT_EQ(load().position.epoch, 2);
}

TEST_F(CheckpointFolder, SaysWhenThereIsNone) {
  expect_says(error_of([&] { load(); }), "holds no checkpoint");
  save_checkpoint(folder_.path(), sample(1));
  save_checkpoint(folder_.path(), sample(2));
  damage("checkpoint");
  damage("checkpoint.previous");
  expect_says(error_of([&] { load(); }), "cannot use");
  expect_says(error_of([&] { load_checkpoint("/dev/zero", [](std::string_view) {}); }),
              "it is a device");
}

TEST_F(CheckpointFolder, ADamagedOneNeverTakesThePlaceOfAGoodOne) {
  save_checkpoint(folder_.path(), sample(1));
  save_checkpoint(folder_.path(), sample(2));
  damage("checkpoint");
  EXPECT_EQ(load().position.epoch, 1);
  save_checkpoint(folder_.path(), sample(3));
  EXPECT_EQ(load().position.epoch, 3);
  damage("checkpoint");
  EXPECT_EQ(load().position.epoch, 1);
}

TEST_F(CheckpointFolder, AFullDiskLeavesTheOldOnes) {
  save_checkpoint(folder_.path(), sample(1));
  save_checkpoint(folder_.path(), sample(2));
  std::string error;
  {
    const testing::FullDisk full(100);
    error = error_of([&] { save_checkpoint(folder_.path(), sample(3)); });
  }
  expect_says(error, (folder_.path() / "checkpoint").string());
  expect_says(error, "make room");
  EXPECT_EQ(load().position.epoch, 2);
  damage("checkpoint");
  EXPECT_EQ(load().position.epoch, 1);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_TRUE(entry.path().filename() == "checkpoint" ||
                entry.path().filename() == "checkpoint.previous")
        << entry.path();
  }
}

}  // namespace
}  // namespace crossbow
