// Checkpoints whose checksum is right, and whose header says what no run would.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "data/files.h"
#include "support/error_text.h"
#include "support/odd_files.h"
#include "train/encoded.h"
#include "train/tiny_run.h"

namespace crossbow {
namespace {

using nlohmann::json;
using testing::error_of;

constexpr size_t kPrologue = 16;

Checkpoint sample() {
  Checkpoint c;
  c.image = {1, 28, 28};
  c.classes = 10;
  c.samples = 60000;
  c.history.push_back({.epoch = 1, .train_loss = 0.3});
  const auto zeros = [](int64_t, std::span<float> to) { std::fill(to.begin(), to.end(), 0.0f); };
  c.tensors.push_back({"weight", Checkpoint::Role::parameter, 0, {100, 1000}, zeros});
  return c;
}

std::string with_header(const std::vector<uint8_t>& file, const std::string& header) {
  uint32_t length;
  std::memcpy(&length, file.data() + 12, sizeof length);
  std::string forged(file.begin(), file.begin() + 12);
  const auto size = static_cast<uint32_t>(header.size());
  forged.append(reinterpret_cast<const char*>(&size), sizeof size) += header;
  forged.append(file.begin() + kPrologue + length, file.end() - 4);
  const auto crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const uint8_t*>(forged.data()), forged.size()));
  return forged.append(reinterpret_cast<const char*>(&crc), sizeof crc);
}

json header_of(const std::vector<uint8_t>& file) {
  uint32_t length;
  std::memcpy(&length, file.data() + 12, sizeof length);
  return json::parse(file.begin() + kPrologue, file.begin() + kPrologue + length);
}

class ForgedCheckpoint : public ::testing::Test {
 protected:
  std::string error_with(const std::string& header) {
    write_file_atomically(path_, with_header(file_, header));
    return error_of([&] { load_checkpoint(path_, [](std::string_view) {}); });
  }
  /// With that value at that place.
  void expect_refused(const char* place, const json& value) {
    json header = header_of(file_);
    header.at(json::json_pointer(place)) = value;
    const std::string error = error_with(header.dump());
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot use " + path_.string(), error)
        << place << " = " << value;
    EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, "json", error);
  }

  const data::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "checkpoint";
  std::vector<uint8_t> file_ = testing::encoded(sample());
};

TEST_F(ForgedCheckpoint, IsReadIfNothingIsForged) {
  EXPECT_EQ(error_with(header_of(file_).dump()), "no error");
}

/// As it was before optimizers named their slots.
TEST_F(ForgedCheckpoint, MomentumOfAnOlderOneIsASlot) {
  const struct {
    const char *sync, *role;
    Checkpoint::Role read;
    std::string slot;
  } kTensors[] = {{"sma", "momentum", Checkpoint::Role::slot, "momentum"},
                  {"ssgd", "central", Checkpoint::Role::slot, "momentum"},
                  {"ssgd", "weights", Checkpoint::Role::weights, ""},
                  {"sma", "central", Checkpoint::Role::central, ""}};
  for (const auto& [sync, role, read, slot] : kTensors) {
    Checkpoint older = sample();
    older.options.sync = sync;
    json header = header_of(testing::encoded(older));
    header["tensors"][0]["role"] = role;
    EXPECT_EQ(error_with(header.dump()), "no error");
    const auto tensor = load_checkpoint(path_, [](std::string_view) {}).tensors.at(0);
    EXPECT_EQ(tensor.role, read) << sync << ' ' << role;
    EXPECT_EQ(tensor.slot, slot) << sync << ' ' << role;
  }
}

/// As it was before labels could be numbers.
TEST_F(ForgedCheckpoint, LabelsOfAnOlderOneAreClassesOrSets) {
  for (const bool sets : {false, true}) {
    json header = header_of(file_);
    header.erase("labels");
    header["label_sets"] = sets;
    EXPECT_EQ(error_with(header.dump()), "no error");
    EXPECT_EQ(load_checkpoint(path_, [](std::string_view) {}).label,
              sets ? LabelKind::class_set : LabelKind::one_class);
  }
  expect_refused("/labels", "colours");
}

TEST_F(ForgedCheckpoint, ATestWithoutAResultIsRefused) {
  expect_refused("/history/0/test_loss", 0.5);
}

/// Of nodes on a simulated network.
TEST_F(ForgedCheckpoint, MessagesOutOfRangeAreRefused) {
  Checkpoint simulated = sample();
  simulated.position.engine.nodes.resize(2);
  file_ = testing::encoded(simulated);
  EXPECT_EQ(error_with(header_of(file_).dump()), "no error");
  for (const json& letter : {json::array({2, 1, 1}), json::array({0, -1, 1}), json::array({0, 1}),
                             json::array({0, 1, -1}), json::array({-2, 1, 1}), json("letter")}) {
    expect_refused("/position/nodes/0/letters/3", letter);
  }
  expect_refused("/position/nodes/0/letters", json::array());
  for (const json& bookings :
       {json::array({json::array({2, 1})}), json::array({json::array({-1, 1})}),
        json::array({json::array({1, 3}), json::array({2, 4})}), json(1)}) {
    expect_refused("/position/nodes/1/card/in", bookings);
    expect_refused("/position/server_card/out", bookings);
  }
  expect_refused("/position/nodes/0/sent", -1);
}

TEST_F(ForgedCheckpoint, IsRefusedIfANumberIsOutOfRange) {
  for (const json& huge : {json(1000000000000), json(-1), json(18446744073709551615u), json(1e300),
                           json("7"), json(nullptr), json::array({1})}) {
    for (const char* place :
         {"/position/arrangement/learners", "/position/arrangement/threads_per_learner",
          "/position/epoch", "/position/batch", "/history/0/epoch", "/history/0/learners",
          "/classes", "/tensors/0/index", "/tensors/0/shape/0", "/image/0"}) {
      expect_refused(place, huge);
    }
  }
  for (const char* place :
       {"/position/step", "/position/exchanges", "/position/since_exchange", "/position/changes",
        "/position/logged_rows", "/metrics_bytes", "/samples"}) {
    for (const json& wrong : {json(-1), json("text"), json(1.5)}) expect_refused(place, wrong);
  }
  for (const char* place : {"/position/seconds", "/position/waiting_seconds",
                            "/position/wall_seconds", "/history/0/seconds"}) {
    for (const json& wrong : {json(-1), json("text"), json(1e13)}) expect_refused(place, wrong);
  }
  expect_refused("/position/arrangement/learners", 1000000000);
  expect_refused("/position/arrangement/threads_per_learner", 0);
  expect_refused("/position/batch", 60000 / 16 + 1);
  expect_refused("/metrics_bytes", int64_t{1} << 60);
  expect_refused("/image", json::array({28, 28}));
  expect_refused("/image", json::array({1 << 20, 1 << 20, 1 << 20}));
  expect_refused("/config", "batch = 0");
  expect_refused("/config", "batch = -5");
  expect_refused("/config", "batch");
  expect_refused("/position", json::array());
  expect_refused("/tensors", 1);
}

TEST_F(ForgedCheckpoint, IsRefusedIfItsHeaderIsNoJsonOfOurs) {
  for (const std::string header : {"", "{", "[]", "null", "7", "\xff"}) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "header is damaged", error_with(header));
  }
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "nested more than",
                      error_with(std::string(1000000, '[')));
}

TEST_F(ForgedCheckpoint, TakesNoMemoryForWhatItClaims) {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  expect_refused("/tensors/0/shape", json::array({1 << 20, 1 << 10}));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10);  // KiB
}

TEST_F(ForgedCheckpoint, WhatIsNoFileIsRefusedByName) {
  const auto load = [](const std::filesystem::path& path) {
    load_checkpoint(path, [](std::string_view) {});
  };
  for (const auto& odd : testing::odd_files(folder_.path())) {
    if (odd.reason == "it is a folder") continue;
    EXPECT_ERROR(load(odd.path), odd.path.string());
    EXPECT_ERROR(load(odd.path), odd.reason);
  }
  std::filesystem::create_directory(folder_.path() / "folder" / "checkpoint");
  EXPECT_ERROR(load(folder_.path() / "folder"), "folder/checkpoint: it is a folder");
}

/// Options are checked when a run goes on; the error names the run.
TEST_F(ForgedCheckpoint, OptionsOutOfRangeAreRefusedWithTheRunsName) {
  const testing::TinyData data;
  TrainOptions o = testing::tiny_options(data, "ref");
  o.out = folder_.path() / "run";
  o.epochs = 1;
  train(testing::tiny_net, o);
  const std::filesystem::path path = folder_.path() / "run" / "checkpoint";
  const std::string text = read_text_file(path, 1 << 20);
  const std::vector<uint8_t> file(text.begin(), text.end());
  json header = header_of(file);
  header["config"] = header["config"].get<std::string>() + "learners = 1000000000\n";
  write_file_atomically(path, with_header(file, header.dump()));
  o.resume = o.out;
  EXPECT_ERROR(train(testing::tiny_net, o), "cannot go on with " + *o.out);
}

}  // namespace
}  // namespace crossbow
