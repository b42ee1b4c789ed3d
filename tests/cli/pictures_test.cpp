// crossbow data check, and crossbow convert of pictures.
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "core/file.h"
#include "data/picture.h"
#include "data/picture_files.h"

namespace crossbow::testing {
namespace {

using data::FileBytes;
using nlohmann::json;

class Pictures : public ProgramTest {
 protected:
  /// Four training pictures of two classes, and one of the test, of 30 × 40 pixels and less.
  void add_records() const {
    data::write_file(path("set/train-00000-of-00002"),
                     data::records({{data::picture(0), 1}, {large(), 2}}));
    data::write_file(path("set/train-00001-of-00002"),
                     data::records({{data::picture(1), 1}, {data::picture(2), 2}}));
    data::write_file(path("set/validation-00000-of-00001"), data::records({{large(), 1}}));
  }
  /// The second record of the first archive can no longer be found.
  void cut() const {
    FileBytes archive = data::records({{data::picture(0), 1}});
    archive.resize(archive.size() + 5);
    data::write_file(path("set/train-00000-of-00002"), archive);
  }
  void add_records_with_two_faults() const {
    add_records();
    cut();
    data::write_file(path("set/train-00001-of-00002"),
                     data::records({{no_picture(), 1}, {data::picture(2), 2}}));
  }
  void add_folder(const std::string& part, const FileBytes& picture) const {
    data::write_file(path("folders/" + part + "/ant/1"), picture);
  }
  static FileBytes large() { return data::encode_jpeg(data::gradient(30, 40)); }
  static FileBytes no_picture() { return data::text("no picture"); }

  std::shared_ptr<const data::Dataset> open(const std::string& spec) const {
    const size_t colon = spec.find(':') + 1;
    return data::open_dataset(spec.substr(0, colon) + path(spec.substr(colon)).string());
  }
  static FileBytes file_of(const data::Split& split, int64_t i) {
    std::vector<uint8_t> scratch;
    const auto file = std::get<data::EncodedPicture>(split.sample(i, &scratch)).file;
    return {file.begin(), file.end()};
  }
};

TEST_F(Pictures, GoodSetsPassTheCheck) {
  add_records();
  const Outcome o = crossbow("data check tfrecord:set");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "tfrecord:set: 4 training and 1 test images can be read\n");
  EXPECT_EQ(crossbow("data check imagenet:set").code, 0);
}

TEST_F(Pictures, TheCheckNamesWhatIsBadAndGoesOn) {
  add_records_with_two_faults();
  const Outcome o = crossbow("data check tfrecord:set");
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.out,
            "tfrecord:set: 2 training and 1 test images can be read; 2 faults, named above\n");
  const size_t second = data::records({{data::picture(0), 1}}).size();
  expect_says(
      o.err, fmt::format("crossbow data check: set/train-00000-of-00002: record 1, which begins at "
                         "byte {}: the file ends within it",
                         second));
  expect_says(
      o.err,
      "crossbow data check: set/train-00001-of-00002, record 0, which begins at byte 0: this "
      "is neither a JPEG nor a PNG");
  const json said = json::parse(crossbow("data check tfrecord:set --json").out);
  EXPECT_EQ(said["train"], 2);
  EXPECT_EQ(said["test"], 1);
  EXPECT_EQ(said["bad"].size(), 2u);
}

TEST_F(Pictures, TheCheckSeesAPartOfWhichNothingIsLeft) {
  add_records();
  data::write_file(path("set/validation-00000-of-00001"), FileBytes(3));
  const Outcome o = crossbow("data check tfrecord:set");
  EXPECT_EQ(o.code, 1);
  expect_says(o.out, "4 training and 0 test images can be read; 1 fault, named above");
  expect_says(o.err, "set/validation-00000-of-00001: record 0, which begins at byte 0");
  const Outcome converted = crossbow("convert tfrecord:set tar:copy --skip-bad");
  EXPECT_EQ(converted.code, 1);
  expect_says(converted.err, "none of the test pictures can be used");
}

TEST_F(Pictures, TheCheckLooksIntoFoldersAndTars) {
  add_folder("train", large());
  add_folder("val", no_picture());
  for (const char* kind : {"imagefolder", "imagenet"}) {
    const Outcome o = crossbow(std::string("data check ") + kind + ":folders");
    EXPECT_EQ(o.code, 1);
    expect_says(o.err, "folders/val/ant/1: this is neither a JPEG nor a PNG");
  }
  std::filesystem::create_directory(path("tars"));
  data::write_tar(path("tars/train.tar"), {{"1.jpg", large()}, {"1.cls", data::text("0")}});
  data::write_tar(path("tars/val.tar"), {{"1.jpg", large()},
                                         {"1.cls", data::text("0")},
                                         {"../2.jpg", large()},
                                         {"../2.cls", data::text("0")}});
  const Outcome o = crossbow("data check tar:tars");
  EXPECT_EQ(o.code, 1);
  expect_says(o.out, "tar:tars: 1 training and 1 test images can be read; 1 fault, named above");
  expect_says(o.err, "tars/val.tar: member '../2.jpg', which begins at byte ");
}

TEST_F(Pictures, TrainingEndsAtThePictureThatCannotBeDecoded) {
  const std::string train =
      "train --model logistic --device ref --data tfrecord:set --image-size 8 --batch 2 "
      "--learners 1 --epochs 1";
  const auto ends = [&](const FileBytes& archive, const std::string& sentence) {
    add_records();
    data::write_file(path("set/train-00001-of-00002"), archive);
    const Outcome o = crossbow(train);
    EXPECT_EQ(o.code, 1);
    expect_says(o.err, "set/train-00001-of-00002");
    expect_says(o.err, sentence);
    expect_one_complaint(o);
  };
  const FileBytes good = data::records({{data::picture(1), 1}, {data::picture(2), 2}});
  const size_t second = data::records({{data::picture(1), 1}}).size();
  ends(data::records({{data::picture(1), 1}, {no_picture(), 2}}),
       fmt::format("record 1, which begins at byte {}: this is neither a JPEG nor a PNG", second));
  FileBytes flipped = good;
  flipped[second + 40] ^= 1;
  ends(flipped, fmt::format("record 1, which begins at byte {}: ", second));
}

/// Members of 3 GiB that are there, in a file without blocks, and headers that claim to go on.
TEST_F(Pictures, TarsWithHugeMembersTakeLittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer takes more address space than any limit";
#endif
  constexpr uint64_t kHuge = uint64_t{3} << 30;
  std::filesystem::create_directory(path("tars"));
  data::write_tar(path("tars/val.tar"), {{"1.jpg", large()}, {"1.cls", data::text("0")}});
  data::write_tar(path("good.tar"), {{"1.jpg", {}}, {"1.cls", data::text("0")}});
  const std::string good = read_text_file(path("good.tar"), 1 << 20);
  for (const char type : {'0', 'x', 'L', 'K'}) {
    for (const char* const ending : {"jpg", "cls"}) {
      FileBytes tar(good.begin(), good.begin() + 512);
      std::copy_n(ending, 3, tar.begin() + 2);
      tar[156] = static_cast<uint8_t>(type);
      data::write_file(path("tars/train.tar"), data::claiming(tar, 0, kHuge));
      std::filesystem::resize_file(path("tars/train.tar"), kHuge + 2048);
      const Outcome o = shell("ulimit -v 1000000; " + crossbow_binary() + " data check tar:tars");
      EXPECT_EQ(o.code, 1) << type;
      expect_says(o.err, "tars/train.tar: ");
      EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    }
  }
}

TEST_F(Pictures, AConversionEndsAtTheFirstFault) {
  FileBytes cut_short = large();
  cut_short.resize(cut_short.size() - 20);
  add_folder("train", cut_short);
  add_folder("val", large());
  EXPECT_EQ(crossbow("convert imagefolder:folders tar:copy").code, 0);  // as they are
  const Outcome o = crossbow("convert imagefolder:folders tar:small --short-side 8");
  EXPECT_EQ(o.code, 1);
  expect_says(o.err, "folders/train/ant/1: this JPEG is damaged or cut short");
  add_records();
  cut();
  EXPECT_EQ(crossbow("convert tfrecord:set tar:cut").code, 1);
}

TEST_F(Pictures, AConversionSkipsWhatIsBadIfAsked) {
  add_records_with_two_faults();
  for (int time = 0; time < 2; ++time) {
    const Outcome o = crossbow("convert tfrecord:set tar:copy --skip-bad");
    EXPECT_EQ(o.code, 0) << o.err;
    expect_says(o.out, "copy: 2 training and 1 test pictures in 2 files");
    expect_says(o.out, "2 faults, named above: what is damaged there is left out");
    expect_says(o.err, "crossbow convert: left out set/train-00000-of-00002: record 1, which");
    expect_says(o.err, "crossbow convert: left out set/train-00001-of-00002, record 0, which");
  }
  const json said = json::parse(crossbow("convert tfrecord:set tar:copy --skip-bad --json").out);
  EXPECT_EQ(said["train"], 2);
  EXPECT_EQ(said["skipped"].size(), 2u);
  const auto copy = open("tar:copy");
  ASSERT_EQ(copy->train->size(), 2);
  EXPECT_EQ(file_of(*copy->train, 0), data::picture(0));
  EXPECT_EQ(file_of(*copy->train, 1), data::picture(2));
  EXPECT_EQ(crossbow("data check tar:copy").code, 0);
}

TEST_F(Pictures, AConversionShrinksLargerPictures) {
  add_records();
  ASSERT_EQ(crossbow("convert tfrecord:set tfrecord:fine --short-side 24").code, 0);
  ASSERT_EQ(crossbow("convert tfrecord:set tfrecord:coarse --short-side 24 --quality 20").code, 0);
  const auto fine = open("tfrecord:fine"), coarse = open("tfrecord:coarse");
  for (const auto& set : {fine, coarse}) {
    const data::Image shrunk = data::decode_image(file_of(*set->train, 1));
    EXPECT_EQ(shrunk.height, 24);
    EXPECT_EQ(shrunk.width, 32);
    EXPECT_EQ(file_of(*set->train, 0), data::picture(0));  // small already
  }
  EXPECT_LT(file_of(*coarse->train, 1).size(), file_of(*fine->train, 1).size());
}

TEST_F(Pictures, OptionsOfAConversionThatMeanNothingAreRefused) {
  add_records();
  const auto refused = [&](const std::string& options, const std::string& sentence) {
    const Outcome o = crossbow("convert tfrecord:set tar:copy " + options);
    EXPECT_EQ(o.code, 2) << options;
    expect_says(o.err, sentence);
  };
  refused("--short-side 0", "--short-side 0: it must be in 1 to 65500");
  refused("--quality 80", "--quality 80: pictures stay as they are; give --short-side too");
  refused("--short-side 8 --quality 101", "--quality 101: it must be in 1 to 100");
  const Outcome o = crossbow("convert " + data_.spec() + " tar:copy --short-side 8");
  EXPECT_EQ(o.code, 2);
  expect_says(o.err, "are of one size, and stay so");
  EXPECT_FALSE(std::filesystem::exists(path("copy")));
}

}  // namespace
}  // namespace crossbow::testing
