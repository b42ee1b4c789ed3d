// Checkpoints whose checksum is right, and whose header says what no run would.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <regex>

#include "core/file.h"
#include "data/files.h"
#include "support/error_text.h"
#include "support/gpu.h"
#include "support/odd_files.h"
#include "train/encoded.h"
#include "train/forged.h"
#include "train/tiny_run.h"
#include "train/trained_model.h"

namespace crossbow {
namespace {

using nlohmann::json;
using testing::error_of;
using testing::run_of;
using testing::with_header;
using testing::with_text;

Checkpoint forged_sample() {
  Checkpoint c;
  c.image = {1, 28, 28};
  c.classes = 10;
  c.samples = 60000;
  c.history.push_back({.epoch = 1, .train_loss = 0.3});
  const auto zeros = [](int64_t, std::span<float> to) { std::fill(to.begin(), to.end(), 0.0f); };
  c.tensors.push_back({"weight", Checkpoint::Role::parameter, 0, {100, 1000}, zeros});
  return c;
}

class ForgedCheckpoint : public ::testing::Test {
 protected:
  std::string error_of_file(const std::vector<uint8_t>& file) {
    write_file_atomically(path_, {file});
    return error_of([&] { load_checkpoint(path_, [](std::string_view) {}); });
  }
  /// Where the file tells this of its run.
  std::string error_with(const std::string& run) {
    return error_of_file(with_text(file_, "run", run));
  }
  /// With that value at that place of what it tells of its run.
  void expect_refused(const char* place, const json& value) {
    json run = run_of(file_);
    run.at(json::json_pointer(place)) = value;
    const std::string error = error_with(run.dump());
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot use " + path_.string(), error)
        << place << " = " << value;
    EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, "json", error);
  }

  const data::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "checkpoint";
  std::vector<uint8_t> file_ = testing::encoded(forged_sample());
};

TEST_F(ForgedCheckpoint, IsReadIfNothingIsForged) {
  EXPECT_EQ(error_with(run_of(file_).dump()), "no error");
}

TEST_F(ForgedCheckpoint, LabelsOfAnUnknownKindAreRefused) {
  expect_refused("/labels", "colours");
  expect_refused("/position/batch_rows", int64_t{1} << 50);
}

TEST_F(ForgedCheckpoint, ATestWithoutAResultIsRefused) {
  expect_refused("/history/0/test_loss", 0.5);
}

/// Of nodes on a simulated network.
TEST_F(ForgedCheckpoint, MessagesOutOfRangeAreRefused) {
  Checkpoint simulated = forged_sample();
  simulated.position.engine.nodes.resize(2);
  file_ = testing::encoded(simulated);
  EXPECT_EQ(error_with(run_of(file_).dump()), "no error");
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

/// The sample has one learner, so of two nodes.
TEST_F(ForgedCheckpoint, LostNodesThatNeverWereAreRefused) {
  Checkpoint simulated = forged_sample();
  simulated.position.engine.lost = {{1, 2.5}};
  file_ = testing::encoded(simulated);
  EXPECT_EQ(error_with(run_of(file_).dump()), "no error");
  for (const json& node : {json(2), json(-1), json("1")}) {
    expect_refused("/position/lost_nodes/0/node", node);
  }
  expect_refused("/position/lost_nodes/0/virtual_seconds", -1);
  const json twice{{"node", 0}, {"virtual_seconds", 1}};
  expect_refused("/position/lost_nodes", json::array({twice, twice}));
  json many = json::array();
  for (int node = 0; node < 4096; ++node) many.push_back({{"node", node}, {"virtual_seconds", 1}});
  expect_refused("/position/lost_nodes", many);
  expect_refused("/position/lost_nodes", 1);
}

TEST_F(ForgedCheckpoint, IsRefusedIfANumberIsOutOfRange) {
  for (const json& huge : {json(1000000000000), json(-1), json(18446744073709551615u), json(1e300),
                           json("7"), json(nullptr), json::array({1})}) {
    for (const char* place :
         {"/position/arrangement/learners", "/position/arrangement/threads_per_learner",
          "/position/epoch", "/position/batch", "/history/0/epoch", "/history/0/learners",
          "/classes", "/image/0"}) {
      expect_refused(place, huge);
    }
  }
  for (const char* place :
       {"/position/step", "/position/exchanges", "/position/since_exchange", "/position/changes",
        "/position/logged_rows", "/metrics_bytes", "/turns_bytes", "/samples"}) {
    for (const json& wrong : {json(-1), json("text"), json(1.5)}) expect_refused(place, wrong);
  }
  for (const char* place : {"/position/seconds", "/position/waiting_seconds",
                            "/position/wall_seconds", "/history/0/seconds"}) {
    for (const json& wrong : {json(-1), json("text"), json(1e301)}) expect_refused(place, wrong);
  }
  expect_refused("/position/arrangement/learners", 1000000000);
  expect_refused("/position/arrangement/threads_per_learner", 0);
  expect_refused("/position/batch", 60000 / 16 + 1);
  expect_refused("/metrics_bytes", int64_t{1} << 60);
  expect_refused("/turns_bytes", int64_t{1} << 60);
  expect_refused("/image", json::array({28, 28}));
  expect_refused("/image", json::array({1 << 20, 1 << 20, 1 << 20}));
  expect_refused("/config", "batch = 0");
  expect_refused("/config", "batch = -5");
  expect_refused("/config", "batch");
  expect_refused("/position", json::array());
  expect_refused("/states", 1);
}

TEST_F(ForgedCheckpoint, IsRefusedIfItsHeaderIsNoJsonOfOurs) {
  for (const std::string header : {"", "{", "[]", "null", "7"}) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "header is damaged", error_with(header));
  }
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "nested more than",
                      error_with(std::string(1000000, '[')));
}

/// A tensor's entry in the file's own header.
TEST_F(ForgedCheckpoint, IsRefusedByTheNameOfATensorThatIsNone) {
  const auto error_with_entry = [&](const char* field, const json& value) {
    json header = testing::header_of(file_);
    header["weight"][field] = value;
    return error_of_file(with_header(file_, header));
  };
  const auto says = [&](const std::string& error, const char* text) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, path_.string(), error);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, text, error);
  };
  says(error_with_entry("dtype", "I32"), "tensor weight has type I32 instead of F32");
  says(error_with_entry("shape", {100, 100, 1, 1, 1, 2, 5}),
       "tensor weight: a shape has too many dimensions");
  says(error_with_entry("shape", {1000, 1000}), "tensor weight: 400000 bytes are not what");
  says(error_with_entry("data_offsets", {4, 400004}), "tensor weight: its values are said to be");
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  says(error_with_entry("shape", {1 << 20, 1 << 10}), "tensor weight: 400000 bytes are not what");
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
  json forged = run_of(file);
  forged["config"] = forged["config"].get<std::string>() + "learners = 1000000000\n";
  write_file_atomically(path, {with_text(file, "run", forged.dump())});
  o.resume = o.out;
  EXPECT_ERROR(train(testing::tiny_net, o), "cannot go on with " + *o.out);
}

/// As a machine with a GPU would have left it.
TEST_F(ForgedCheckpoint, ARunOfAGpuGoesOnWithoutOne) {
  if (testing::has_gpu()) GTEST_SKIP() << "there is a GPU";
  const testing::TinyData data;
  TrainOptions o = testing::tiny_options(data, "cpu");
  o.out = folder_.path() / "run";
  o.model = "logistic";
  o.epochs = 1;
  train(o);
  const std::filesystem::path path = folder_.path() / "run" / "checkpoint";
  const std::string text = read_text_file(path, 1 << 20);
  const std::vector<uint8_t> file(text.begin(), text.end());
  json forged = run_of(file);
  std::string config = forged["config"];
  for (const auto& [name, value] : {std::pair{"device", "cuda"}, {"precision", "tf32"}}) {
    const std::regex line(fmt::format("(^|\n){} = [^\n]*", name));
    ASSERT_TRUE(std::regex_search(config, line));
    config = std::regex_replace(config, line, fmt::format("$1{} = '{}'", name, value));
  }
  forged["config"] = config;
  write_file_atomically(path, {with_text(file, "run", forged.dump())});
  const TrainedModel evaluated(
      *o.out, [](TrainOptions own) { return own; }, [](auto) {});
  EXPECT_GT(evaluated.run(*evaluated.open_data(), {}).loss, 0);
  o.resume = o.out;
  o.epochs = 2;
  EXPECT_EQ(train(o).history.size(), 2u);
  o.device = "cuda";
  o.epochs = 3;
  EXPECT_ERROR(train(o), "`device` cuda: there is no GPU");
}

}  // namespace
}  // namespace crossbow
