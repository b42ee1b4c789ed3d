// Checkpoints that older versions of the format have left, and forgeries of them.
#include "train/older_checkpoint.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "data/files.h"
#include "support/error_text.h"
#include "support/paths.h"
#include "support/text.h"
#include "train/checkpoints.h"
#include "train/encoded.h"

namespace crossbow {
namespace {

using nlohmann::json;
using testing::decoded;
using testing::error_of;
using testing::expect_says;
using testing::load;
using Bytes = std::vector<uint8_t>;

constexpr size_t kPrologue = 16;

std::string golden(const std::string& file) {
  return test_data_folder() + "/../train/version5/" + file;
}

Bytes golden_checkpoint() {
  const std::string text = read_text_file(golden("checkpoint"), 1 << 20);
  return {text.begin(), text.end()};
}

void append_u32(Bytes& bytes, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8)
    bytes.push_back(static_cast<uint8_t>(number >> shift));
}

uint32_t header_length(const Bytes& file) {
  uint32_t length;
  std::memcpy(&length, file.data() + 12, sizeof length);
  return length;
}

json header_of(const Bytes& file) {
  return json::parse(file.begin() + kPrologue, file.begin() + kPrologue + header_length(file));
}

/// With a checksum that fits.
Bytes forged(const Bytes& file, uint32_t version, const json& header) {
  const std::string text = header.dump();
  Bytes bytes(file.begin(), file.begin() + 8);
  append_u32(bytes, version);
  append_u32(bytes, static_cast<uint32_t>(text.size()));
  bytes.insert(bytes.end(), text.begin(), text.end());
  bytes.insert(bytes.end(), file.begin() + kPrologue + header_length(file), file.end() - 4);
  append_u32(bytes, static_cast<uint32_t>(crc32_z(0, bytes.data(), bytes.size())));
  return bytes;
}

std::string decode_error(const Bytes& bytes) {
  return error_of([&] { decoded(bytes); });
}

TEST(OlderCheckpoint, IsRead) {
  const Checkpoint c = load(golden("checkpoint"));
  EXPECT_EQ(c.options.model, "logistic");
  EXPECT_EQ(c.options.learners, 2);
  EXPECT_EQ(c.position.epoch, 1);
  EXPECT_EQ(c.position.step, 8);
  ASSERT_EQ(c.history.size(), 1u);
  EXPECT_EQ(c.history[0].test_loss, 0.720418393611908);
  ASSERT_EQ(c.tensors.size(), 10u);
  EXPECT_EQ(c.tensors[0].name, "fc.weight");
  EXPECT_EQ(c.tensors[0].shape, (Shape{3, 6}));
  EXPECT_EQ(c.tensors[0].role, Checkpoint::Role::parameter);
  EXPECT_EQ(c.tensors[9].role, Checkpoint::Role::slot);
  EXPECT_EQ(c.tensors[9].slot, "momentum");
  EXPECT_EQ(c.tensors[9].index, 1);
  float last = 0;
  const Bytes file = golden_checkpoint();
  std::memcpy(&last, file.data() + file.size() - 8, sizeof last);
  EXPECT_EQ(c.tensors[9].values().at(2), last);
  EXPECT_EQ(load_checkpoint_header(golden("checkpoint"), [](std::string_view) {}).samples, 60);
}

TEST(OlderCheckpoint, IsTheSameInTheNewFormat) {
  const data::TemporaryFolder folder;
  const Checkpoint c = load(golden("checkpoint"));
  save_checkpoint(folder.path(), c);
  testing::expect_same_bits(c, load(folder.path()));
}

TEST(OlderCheckpoint, EveryChangedByteAndEveryCutIsNoticed) {
  const Bytes good = golden_checkpoint();
  EXPECT_EQ(decode_error(good), "no error");
  for (size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= 0x10;
    EXPECT_NE(decode_error(bad), "no error") << i;
    EXPECT_NE(decode_error({good.begin(), good.begin() + static_cast<ptrdiff_t>(i)}), "no error")
        << i;
  }
}

TEST(OlderCheckpoint, OfAVersionThatNeverWasIsRefused) {
  const Bytes file = golden_checkpoint();
  EXPECT_EQ(decode_error(forged(file, 5, header_of(file))), "no error");
  expect_says(decode_error(forged(file, 6, header_of(file))), "format version 6");
  expect_says(decode_error(forged(file, 2, header_of(file))), "format version 2");
}

/// Written by version 3 (of tests/fuzz/corpus, which lacks checksums).
Bytes version3() {
  const std::string path = fuzz_corpus_folder() + "/checkpoint/version3";
  const std::string text = read_text_file(path, 1 << 20);
  Bytes bytes(text.begin(), text.end());
  append_u32(bytes, static_cast<uint32_t>(crc32_z(0, bytes.data(), bytes.size())));
  return bytes;
}

TEST(OlderCheckpoint, OfVersion3IsRead) {
  const Checkpoint c = decoded(version3());
  EXPECT_EQ(c.options.model, "lenet");
  EXPECT_EQ(c.options.loss, "cross-entropy");
  EXPECT_EQ(c.position.batch, 2);
  EXPECT_EQ(c.position.step, 7);
  EXPECT_EQ(c.position.arrangement, (Arrangement{2, 1}));
  EXPECT_EQ(c.position.wall_seconds, 0);
  EXPECT_EQ(c.position.changes, 0);
  ASSERT_EQ(c.history.size(), 1u);
  EXPECT_EQ(c.history[0].test_accuracy, 0.5);
  ASSERT_EQ(c.tensors.size(), 3u);
  EXPECT_EQ(c.tensors[0].values(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(c.tensors[1].slot, "momentum");
  EXPECT_EQ(c.tensors[2].role, Checkpoint::Role::state);
  EXPECT_EQ(decode_header(testing::file_of(version3())).samples, 70);
}

/// Later ones tell the time and the changes of learners.
TEST(OlderCheckpoint, OfAnotherVersionThan3IsComplete) {
  const Bytes file = golden_checkpoint();
  for (const char* key : {"wall_seconds", "changes"}) {
    json header = header_of(file);
    header["position"].erase(key);
    EXPECT_EQ(decode_error(forged(file, 3, header)), "no error") << key;
    for (const uint32_t version : {4, 5}) {
      expect_says(decode_error(forged(file, version, header)), "header is damaged");
    }
  }
}

TEST(OlderCheckpoint, OfVersion3HasTheAlgorithmOfThen) {
  const Bytes file = golden_checkpoint();
  EXPECT_EQ(decoded(forged(file, 3, header_of(file))).options.sync, "sma-paper");
}

/// What `sma` was then is `sma-paper` now.
TEST(OlderCheckpoint, OfVersion4HasTheAlgorithmOfThen) {
  const Bytes file = golden_checkpoint();
  const Checkpoint c = decoded(forged(file, 4, header_of(file)));
  EXPECT_EQ(c.options.sync, "sma-paper");
  EXPECT_EQ(c.options.lr_scaling, "none");
}

/// As it was before optimizers named their slots.
TEST(OlderCheckpoint, MomentumIsASlot) {
  const struct {
    const char *sync, *role;
    Checkpoint::Role read;
    std::string slot;
  } kTensors[] = {{"sma", "momentum", Checkpoint::Role::slot, "momentum"},
                  {"ssgd", "central", Checkpoint::Role::slot, "momentum"},
                  {"ssgd", "weights", Checkpoint::Role::weights, ""},
                  {"sma", "central", Checkpoint::Role::central, ""}};
  const Bytes file = golden_checkpoint();
  for (const auto& [sync, role, read, slot] : kTensors) {
    json header = header_of(file);
    std::string config = header["config"];
    config.replace(config.find("\"sma\""), 5, fmt::format("\"{}\"", sync));
    header["config"] = config;
    header["tensors"][0]["role"] = role;
    const auto tensor = decoded(forged(file, 5, header)).tensors.at(0);
    EXPECT_EQ(tensor.role, read) << sync << ' ' << role;
    EXPECT_EQ(tensor.slot, slot) << sync << ' ' << role;
  }
}

/// As it was before labels could be numbers.
TEST(OlderCheckpoint, LabelsAreClassesOrSets) {
  const Bytes file = golden_checkpoint();
  for (const bool sets : {false, true}) {
    json header = header_of(file);
    header.erase("labels");
    header["label_sets"] = sets;
    EXPECT_EQ(decoded(forged(file, 5, header)).label,
              sets ? LabelKind::class_set : LabelKind::one_class);
  }
}

TEST(OlderCheckpoint, TensorsThatAreNoneAreRefused) {
  const Bytes file = golden_checkpoint();
  const auto error_with = [&](const char* place, const json& value) {
    json header = header_of(file);
    header.at(json::json_pointer(place)) = value;
    return decode_error(forged(file, 5, header));
  };
  for (const json& huge : {json(1000000000000), json(-1), json(18446744073709551615u), json(1e300),
                           json("7"), json(nullptr), json::array({1})}) {
    expect_says(error_with("/tensors/0/index", huge), "header is damaged");
    expect_says(error_with("/tensors/0/shape/0", huge), "header is damaged");
  }
  expect_says(error_with("/tensors/0/shape", {1 << 20, 1 << 10}), "a shape is out of range");
  expect_says(error_with("/tensors/0/shape", {3, 5}), "bytes follow the last tensor");
  expect_says(error_with("/tensors/0/role", "king"), "fc.weight has an unknown role");
  expect_says(error_with("/tensors", 1), "header is damaged");
}

}  // namespace
}  // namespace crossbow
