#include "train/notes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/model.h"
#include "support/error_text.h"

namespace crossbow {
namespace {

using testing::error_of;

constexpr double kGuess = 2.302585;  // of ten classes

EpochRecord epoch(double train_loss, std::optional<double> accuracy = {}) {
  EpochRecord record;
  record.train_loss = train_loss;
  record.test_accuracy = accuracy;
  return record;
}

LossWatch watch_of(int64_t classes, double lr) {
  const double guess = std::log(static_cast<double>(classes));
  return {classes, {guess, guess}, lr};
}

TEST(LossWatch, SaysOnceThatNothingIsLearned) {
  LossWatch watch = watch_of(10, 0.1);
  EXPECT_FALSE(watch.epoch_done(epoch(2.31, 0.1), 2.30));
  const auto note = watch.epoch_done(epoch(2.305, 0.1), 2.30);
  ASSERT_TRUE(note);
  EXPECT_NE(note->find("try `lr` 0.01"), note->npos) << *note;
  EXPECT_FALSE(watch.epoch_done(epoch(2.305, 0.1), 2.30));
}

TEST(LossWatch, ARateThatIsTooLowIsNotToBeLowered) {
  LossWatch watch = watch_of(10, 1e-9);
  watch.epoch_done(epoch(2.31, 0.1), 2.30);
  const auto note = watch.epoch_done(epoch(2.31, 0.1), 2.30);
  ASSERT_TRUE(note);
  EXPECT_NE(note->find("try `lr` 0.01"), note->npos) << *note;
}

/// Each of these alone shows that the net learns.
TEST(LossWatch, SeesThatSomethingIsLearned) {
  const auto silent = [](const EpochRecord& second, double loss) {
    LossWatch watch = watch_of(10, 0.1);
    watch.epoch_done(epoch(2.6, 0.1), 2.6);
    return !watch.epoch_done(second, loss);
  };
  EXPECT_FALSE(silent(epoch(2.6, 0.1), 2.6));
  EXPECT_TRUE(silent(epoch(2.6, 0.58), 2.6));  // the test accuracy
  EXPECT_TRUE(silent(epoch(2.6, 0.1), 2.0));   // the loss at the epoch's end
  EXPECT_TRUE(silent(epoch(2.4, 0.1), 2.4));   // the loss from epoch to epoch
  EpochRecord tested = epoch(2.6, 0.1);
  tested.test_loss = 2.0;
  EXPECT_TRUE(silent(tested, 2.6));
}

TEST(LossWatch, SaysOnceThatTheLossHasRisen) {
  LossWatch watch = watch_of(2, 0.1);
  EXPECT_FALSE(watch.look(NAN));
  EXPECT_FALSE(watch.look(0.73));
  EXPECT_FALSE(watch.look(1.9));
  const auto note = watch.look(18);
  ASSERT_TRUE(note);
  EXPECT_NE(note->find("far above the 0.6931 of a guess"), note->npos) << *note;
  EXPECT_NE(note->find("try `lr` 0.01"), note->npos) << *note;
  EXPECT_FALSE(watch.look(867));
  EXPECT_FALSE(watch.epoch_done(epoch(500), 400));
}

TEST(LossWatch, FirstWeightsMayBeWorseThanAGuess) {
  LossWatch watch = watch_of(10, 0.1);
  for (const double loss : {40.0, 30.0, 20.0, 10.0, 5.0}) EXPECT_FALSE(watch.look(loss)) << loss;
  EXPECT_FALSE(watch.epoch_done(epoch(21), 5));
  EXPECT_TRUE(watch.epoch_done(epoch(21), 20));  // but not for ever
}

/// Of two epochs.
std::vector<std::string> notes_on(double first, double second, double warmup) {
  return schedule_notes({EpochSchedule::Kind::multistep, 0.1, 0.1, {first, second}, warmup}, 2);
}

TEST(ScheduleNotes, TellWhatLiesBeyondTheRun) {
  EXPECT_TRUE(notes_on(1, 1.5, 0.5).empty());
  const auto never = notes_on(82, 123, 0);
  ASSERT_EQ(never.size(), 1u);
  EXPECT_EQ(never[0].find("the rate never drops: the run has 2 epochs"), 0u) << never[0];
  const auto late = notes_on(1, 123, 0);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_NE(late[0].find("does not drop the rate at 123"), late[0].npos) << late[0];
  const auto warm = notes_on(1, 1.5, 2);
  ASSERT_EQ(warm.size(), 1u);
  EXPECT_EQ(warm[0].find("the rate never reaches 0.1"), 0u) << warm[0];
}

class Labels final : public data::Split {
 public:
  explicit Labels(std::vector<int32_t> labels) : Split(std::move(labels)) {}
  data::Sample sample(int64_t, std::vector<uint8_t>* scratch) const override {
    return scratch->data();
  }
  bool in_memory() const override { return false; }
};

std::optional<std::string> note_on(std::vector<int32_t> labels, std::vector<std::string> names) {
  data::Dataset dataset;
  dataset.info.classes = static_cast<int64_t>(names.size());
  dataset.info.class_names = std::move(names);
  dataset.train = std::make_shared<Labels>(std::move(labels));
  return class_note("imagefolder:pets", dataset);
}

TEST(ClassNote, NamesClassesWithoutImages) {
  EXPECT_FALSE(note_on({0, 1, 1}, {"cat", "dog"}));
  EXPECT_EQ(note_on({0, 2}, {"cat", "cow", "dog"}),
            "imagefolder:pets has no training image of class cow");
  EXPECT_EQ(note_on({0, 1}, {"a", "b", "c", "d", "e", "f", "g", "h"}),
            "imagefolder:pets has no training image of class c, d, e, f, g and 1 more");
}

TEST(ClassNote, OneClassIsRefused) {
  const char* says = "has training images of one class only, so there is nothing to learn";
  const auto refused = [&](std::vector<int32_t> labels, std::vector<std::string> names) {
    const std::string error = error_of([&] { note_on(std::move(labels), std::move(names)); });
    EXPECT_NE(error.find(says), error.npos) << error;
  };
  refused({0, 0}, {"cat"});
  refused({1, 1}, {"cat", "dog"});
}

EpochRecord tested(double train_loss, double test_loss) {
  EpochRecord record = epoch(train_loss, 0.1);
  record.test_loss = test_loss;
  return record;
}

TEST(StatisticsWatch, SaysOnceThatTheyAreYoung) {
  const Graph net = build_model("resnet-20", {{3, 32, 32}, 10, 16, {}});
  StatisticsWatch watch(net, 10);
  EXPECT_FALSE(watch.epoch_done(tested(2.4, 2.5), 5));  // nothing is wrong
  EXPECT_FALSE(watch.epoch_done(tested(40, 50), 5));    // the net itself is
  EXPECT_FALSE(watch.epoch_done(tested(2.4, 50), 30));  // they are old enough
  const auto note = watch.epoch_done(tested(2.4, 50), 29);
  ASSERT_TRUE(note);
  EXPECT_NE(note->find("of 29 steps only"), note->npos) << *note;
  EXPECT_NE(note->find("`bn-images`"), note->npos) << *note;
  EXPECT_FALSE(watch.epoch_done(tested(2.4, 50), 29));
}

TEST(StatisticsWatch, KnowsNetsWithoutThem) {
  StatisticsWatch watch(build_model("logistic", {{1, 8, 8}, 10, 16, {}}), 10);
  EXPECT_FALSE(watch.epoch_done(tested(2.4, 50), 5));
}

}  // namespace
}  // namespace crossbow
