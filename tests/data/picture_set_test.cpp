// Sets of encoded pictures: class folders, TFRecords and tars.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/file.h"
#include "data/check_pictures.h"
#include "data/dataset.h"
#include "data/picture_files.h"
#include "data/pipeline.h"
#include "data/source.h"
#include "data/tfrecord.h"
#include "data/write_pictures.h"
#include "support/error_text.h"
#include "support/paths.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;

class PictureSet : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root()); }
  void add(const std::string& name, const FileBytes& bytes) { write_file(root() / name, bytes); }
  /// Six training pictures of three classes, and three of the test.
  void add_folders() {
    for (int i = 0; i < 9; ++i) {
      const char* const name = i % 3 == 0 ? "ant" : i % 3 == 1 ? "bee" : "cow";
      add(fmt::format("{}/{}/{}.jpg", i < 6 ? "train" : "val", name, i), picture(i));
    }
  }
  void add_records() {
    add("train-00000-of-00002", records({{picture(0), 1, "ant"}, {picture(1), 2, "bee"}}));
    add("train-00001-of-00002", records({{picture(2), 3, "cow"}, {picture(3), 1, "ant"}}));
    add("validation-00000-of-00001", records({{picture(4), 2, "bee"}}));
  }
  std::shared_ptr<const Dataset> open(const std::string& kind, int64_t side = 16,
                                      int threads = 0) const {
    return open_dataset(kind + ':' + root().string(),
                        {.image_size = {side, side}, .threads = threads});
  }
  fs::path root() const { return folder_.path() / "set"; }
  fs::path beside(const char* name) const { return folder_.path() / name; }

 private:
  TemporaryFolder folder_;
};

/// All numbers of an epoch's batches, and the labels.
std::vector<float> epoch(const Dataset& set, const PipelineOptions& options, int64_t number = 0) {
  Pipeline pipeline(set, set.train, options);
  pipeline.start(number);
  std::vector<float> all;
  for (int64_t b = 0; b < pipeline.batches(); ++b) {
    const Batch& batch = pipeline.acquire(b);
    all.insert(all.end(), batch.samples(),
               batch.samples() + options.batch * set.info.image.elements());
    all.insert(all.end(), batch.labels(), batch.labels() + options.batch);
    pipeline.release(batch);
  }
  return all;
}

const PipelineOptions kCropped{.batch = 4,
                               .shuffle = true,
                               .augment = {.least_area = 0.3, .mirror = true},
                               .seed = 5,
                               .threads = 1};

TEST(MaskedCrc, IsThatOfTensorFlow) {
  const FileBytes digits = text("123456789");
  const uint32_t crc = 0xE3069283;  // the check value of CRC-32C
  EXPECT_EQ(masked_crc(digits), (crc >> 15 | crc << 17) + 0xA282EAD8);
}

TEST_F(PictureSet, TFRecordsOfTensorFlowsScriptCountLabelsFromOne) {
  add_records();
  const auto set = open("imagenet");
  EXPECT_EQ(set->info.image, (Shape{3, 16, 16}));
  EXPECT_EQ(set->info.class_names, (std::vector<std::string>{"ant", "bee", "cow"}));
  ASSERT_EQ(set->train->size(), 4);
  EXPECT_EQ(set->train->label(2), 2);
  EXPECT_EQ(set->train->label(3), 0);
  EXPECT_EQ(set->test->label(0), 1);
  std::vector<uint8_t> scratch;
  for (int i = 0; i < 4; ++i) {
    const auto sample = std::get<EncodedPicture>(set->train->sample(i, &scratch));
    EXPECT_TRUE(std::ranges::equal(sample.file, picture(i))) << i;
  }
}

TEST_F(PictureSet, TFRecordsOfTensorFlowDatasetsCountLabelsFromZero) {
  add("pets-train.tfrecord-00000-of-00001",
      records({{picture(0), 0, "", true}, {picture(1), 1, "", true}}));
  add("pets-validation.tfrecord-00000-of-00001", records({{picture(2), 1, "", true}}));
  const auto set = open("tfrecord");
  EXPECT_EQ(set->info.class_names, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(set->train->label(0), 0);
  EXPECT_EQ(set->test->label(0), 1);
}

TEST_F(PictureSet, ASkippedPicturesClassNamesNoOther) {
  add("train-00000-of-00001", records({{picture(0), 1, "ant"}, {picture(1), 3, "cow"}}));
  add("validation-00000-of-00001",
      records({{picture(2), 1, "ant"}, {picture(3), 900000, "zebra, with a long name"}}));
  const auto set = open_dataset("tfrecord:" + root().string(), OpenOptions{.skip_bad = true});
  EXPECT_EQ(set->info.class_names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(set->bad.size(), 1u);
}

TEST_F(PictureSet, TarsPairPicturesWithClasses) {
  write_tar(root() / "pets-train-000000.tar", {{"a/1.jpg", picture(0)},
                                               {"a/1.cls", text("1\n")},
                                               {"a/readme.md", text("hello")},
                                               {"a/2.cls", text("0")},
                                               {"a/2.seg.txt", text("more")},
                                               {"a/2.PNG", picture(3)}});
  const std::string longest(150, 'x');
  write_tar(root() / "pets-val-000000.tar",
            {{longest + ".jpeg", picture(4)}, {longest + ".cls", text("1")}});
  const auto set = open("tar");
  ASSERT_EQ(set->train->size(), 2);
  EXPECT_EQ(set->train->label(0), 1);
  EXPECT_EQ(set->train->label(1), 0);
  std::vector<uint8_t> scratch;
  const auto same = [&](const Split& split, int64_t i, int number) {
    return std::ranges::equal(std::get<EncodedPicture>(split.sample(i, &scratch)).file,
                              picture(number));
  };
  EXPECT_TRUE(same(*set->train, 0, 0));
  EXPECT_TRUE(same(*set->train, 1, 3));
  EXPECT_TRUE(same(*set->test, 0, 4));
}

TEST_F(PictureSet, BatchesAreTheSameFromAllContainersOnAnyNumberOfThreads) {
  add_folders();
  const auto folders = open("imagenet");
  const std::vector<float> batches = epoch(*folders, kCropped, 3);
  EXPECT_NE(batches, epoch(*folders, kCropped, 4));
  for (const Container container : {Container::files, Container::tfrecord, Container::tar}) {
    const fs::path copy = beside("copy") += std::to_string(static_cast<int>(container));
    write_pictures(*folders, "folders", copy, {.container = container});
    const auto set = open_dataset("imagenet:" + copy.string(), {.image_size = {16, 16}});
    EXPECT_EQ(set->info.class_names, folders->info.class_names);
    for (int threads = 1; threads <= 4; ++threads) {
      PipelineOptions options = kCropped;
      options.threads = threads;
      EXPECT_EQ(epoch(*set, options, 3), batches) << copy << " on " << threads;
    }
  }
}

TEST_F(PictureSet, EpochsBegunInTheMiddleHaveTheSameBatches) {
  add_folders();
  const auto set = open("imagenet");
  const std::vector<float> all = epoch(*set, kCropped, 2);
  Pipeline pipeline(*set, set->train, kCropped);
  pipeline.start(2, 1);
  const Batch& batch = pipeline.acquire(1);
  const auto row = static_cast<size_t>(set->info.image.elements());
  EXPECT_TRUE(std::equal(batch.samples(), batch.samples() + 2 * row, all.begin() + 4 * row + 4));
}

TEST_F(PictureSet, TheIndexIsKeptUntilTheFilesChange) {
  add_records();
  EXPECT_NE(open("imagenet")->info.note.find("indexed 5 pictures in TFRecords"), std::string::npos);
  EXPECT_EQ(open("imagenet")->info.note, "");
  add("validation-00000-of-00001", records({{picture(4), 2, "bee"}, {picture(5), 2, "bee"}}));
  EXPECT_NE(open("imagenet")->info.note.find("indexed 6 pictures"), std::string::npos);
  EXPECT_EQ(open("imagenet")->test->size(), 2);
  // A damaged one is made anew.
  FileBytes index = text(read_text_file(root() / ".crossbow-index", 1 << 20));
  for (const size_t at : {size_t{0}, index.size() / 2, index.size() - 1}) {
    FileBytes damaged = index;
    damaged[at] ^= 4;
    add(".crossbow-index", damaged);
    EXPECT_EQ(open("imagenet")->train->size(), 4) << at;
  }
}

TEST_F(PictureSet, AFolderOfPicturesIsIndexedAnewWhenItGrows) {
  add_folders();
  EXPECT_EQ(open("imagenet")->train->size(), 6);
  EXPECT_EQ(open("imagenet")->info.note, "");
  add("train/bee/later.jpg", picture(7));
  fs::last_write_time(root() / "train" / "bee",
                      fs::last_write_time(root() / "train" / "bee") + std::chrono::seconds(1));
  EXPECT_EQ(open("imagenet")->train->size(), 7);
}

TEST_F(PictureSet, DamageNamesTheFileTheRecordAndThePlace) {
  FileBytes file = records({{picture(0), 1}, {picture(1), 1}});
  const size_t second = file.size() - records({{picture(1), 1}}).size();
  add("validation-00000-of-00001", records({{picture(2), 1}}));
  const auto expect = [&](const FileBytes& damaged, const std::string& reason) {
    add("train-00000-of-00001", damaged);
    EXPECT_ERROR(open("tfrecord"), "train-00000-of-00001: record");
    EXPECT_ERROR(open("tfrecord"), reason);
  };
  const std::string at = fmt::format("record 1, which begins at byte {}: ", second);
  FileBytes cut = file;
  cut.resize(file.size() - 5);
  expect(cut, at + "the file ends within it");
  FileBytes flipped = file;
  flipped[second + 40] ^= 1;
  expect(flipped, at + "its bytes do not fit its checksum");
  FileBytes length = file;
  length[second] ^= 1;
  expect(length, at + "this is no length of a record");
  FileBytes huge(file.begin(), file.begin() + static_cast<ptrdiff_t>(second));
  FileBytes number;
  append(number, uint64_t{1} << 60);
  huge.insert(huge.end(), number.begin(), number.end());
  append(huge, masked_crc(number));
  expect(huge, at + "its length of 1152921504606846976 bytes");
  expect(text("this is some text, not a TFRecord"), "record 0, which begins at byte 0");

  // After the index was made, too.
  add("train-00000-of-00001", file);
  const auto set = open("tfrecord");
  add("train-00000-of-00001", flipped);
  std::vector<uint8_t> scratch;
  EXPECT_ERROR(set->train->sample(1, &scratch), at + "its bytes do not fit its checksum");
  EXPECT_EQ(check_samples(*set, {}).bad.size(), 1u);
  add("train-00000-of-00001", cut);
  EXPECT_ERROR(set->train->sample(1, &scratch), at + "cannot read ");
  EXPECT_EQ(check_samples(*set, {}).bad.size(), 1u);
}

TEST_F(PictureSet, BadRecordsAreLeftOutIfAsked) {
  FileBytes file = records({{picture(0), 1}, {picture(1), 1}, {{}, 1}, {picture(2), 1}});
  file[40] ^= 1;
  add("train-00000-of-00001", file);
  add("validation-00000-of-00001", records({{picture(2), 1}}));
  EXPECT_ERROR(open("tfrecord"), "record 0, which begins at byte 0: its bytes do not fit");
  for (int time = 0; time < 2; ++time) {  // no index of it is kept
    const auto set = open_dataset("tfrecord:" + root().string(), {.skip_bad = true});
    EXPECT_EQ(set->train->size(), 2);
    ASSERT_EQ(set->bad.size(), 2u);
    EXPECT_NE(set->bad[0].find("train-00000-of-00001: record 0"), std::string::npos);
    EXPECT_NE(set->bad[1].find("record 2, which begins at"), std::string::npos);
    EXPECT_EQ(check_samples(*set, {}).bad, set->bad);
  }
}

TEST_F(PictureSet, BadArchivesAreLeftOutIfAsked) {
  const std::vector<Record> three{{picture(0), 1}, {picture(1), 2}, {picture(2), 3}};
  const size_t second = records({three[0]}).size();
  FileBytes cut = records(three), altered = cut, undecodable = records({{text("no"), 2}, three[0]});
  cut.resize(second + 20);
  altered[second] ^= 1;
  add("train-00000-of-00005", cut);
  add("train-00001-of-00005", altered);
  add("train-00002-of-00005", FileBytes(7));
  undecodable.insert(undecodable.begin(), cut.begin(),
                     cut.begin() + static_cast<ptrdiff_t>(second));
  add("train-00003-of-00005", undecodable);
  add("train-00004-of-00005", records(three));
  add("validation-00000-of-00001", cut);
  const auto set = open_dataset("tfrecord:" + root().string(), {.skip_bad = true});
  EXPECT_EQ(set->train->size(), 8);
  EXPECT_EQ(set->test->size(), 1);
  const Checked checked = check_samples(*set, {});
  EXPECT_EQ(checked.train, 7);
  EXPECT_EQ(checked.test, 1);
  const std::string record_1 = fmt::format("record 1, which begins at byte {}: ", second);
  const std::vector<std::string> expected{
      "train-00000-of-00005: " + record_1 + "the file ends within it",
      "train-00001-of-00005: " + record_1 + "this is no length of a record",
      "train-00002-of-00005: record 0, which begins at byte 0: the file ends within it",
      "validation-00000-of-00001: " + record_1 + "the file ends within it",
      "train-00003-of-00005, " + record_1 + "this is neither a JPEG nor a PNG"};
  ASSERT_EQ(checked.bad.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NE(checked.bad[i].find(expected[i]), std::string::npos) << checked.bad[i];
  }
}

TEST_F(PictureSet, RecordsAreNumberedWithThoseLeftOut) {
  FileBytes file = records({{picture(0), 1}, {picture(1), 1}, {text("no picture"), 1}});
  file[40] ^= 1;
  add("train-00000-of-00001", file);
  add("validation-00000-of-00001", records({{picture(2), 1}}));
  const auto set = open_dataset("tfrecord:" + root().string(), {.skip_bad = true});
  const Checked checked = check_samples(*set, {});
  ASSERT_EQ(checked.bad.size(), 2u);
  EXPECT_NE(checked.bad[1].find("train-00000-of-00001, record 2, which"), std::string::npos);
}

/// Where training is damaged, a class that only the test has left may be a good one.
TEST_F(PictureSet, ClassesAreThoseOfTheTestToo) {
  FileBytes cut = records({{picture(0), 1}, {picture(1), 2}});
  add("validation-00000-of-00001", records({{picture(2), 2}, {picture(3), 1}}));
  add("train-00000-of-00001", records({{picture(0), 1}}));
  const auto one_class = open_dataset("tfrecord:" + root().string(), {.skip_bad = true});
  EXPECT_EQ(one_class->test->size(), 1);
  ASSERT_EQ(one_class->bad.size(), 1u);
  EXPECT_NE(one_class->bad[0].find("is of class 1, and training has 1 classes"), std::string::npos);
  cut.pop_back();
  add("train-00000-of-00001", cut);
  const auto set = open_dataset("tfrecord:" + root().string(), {.skip_bad = true});
  EXPECT_EQ(set->info.classes, 2);
  EXPECT_EQ(set->test->size(), 2);
  EXPECT_EQ(set->bad.size(), 1u);
}

TEST_F(PictureSet, TheTestIsTheValidationPartOrElseTheTestPart) {
  add("my-test-00000-of-00001", records({{picture(4), 1}, {picture(5), 1}}));
  add("my-train-00000-of-00001", records({{picture(0), 1}}));
  add("retrained-00000-of-00001", records({{picture(0), 1}}));
  EXPECT_EQ(open("tfrecord")->test->size(), 2);
  add("my-validation-00000-of-00001", records({{picture(4), 1}}));
  EXPECT_EQ(open("tfrecord")->test->size(), 1);
  EXPECT_EQ(open("tfrecord")->train->size(), 1);
  add("my-train-00000-of-00002", records({{picture(0), 1}}));
  EXPECT_ERROR(open("tfrecord"), "has files of two sets, my-train-N-of-00001 and -of-00002");
}

TEST_F(PictureSet, ATestFolderWithoutClassesIsNotTheTest) {
  add_folders();
  add("test/1.jpg", picture(0));
  EXPECT_EQ(open("imagenet")->test->size(), 3);
}

TEST_F(PictureSet, RecordsWithoutAPictureOrAClassAreRefused) {
  add("validation-00000-of-00001", records({{picture(2), 1}}));
  add("train-00000-of-00001", records({{picture(2), 0}}));
  EXPECT_ERROR(open("tfrecord"), "its 'image/class/label' is 0, where labels count from 1");
  add("train-00000-of-00001", records({{picture(2), 1 << 20, "", true}}));
  EXPECT_ERROR(open("tfrecord"), "its label, 1048576, is no class's");
  add("train-00000-of-00001", records({{{}, 1}}));
  EXPECT_ERROR(open("tfrecord"), "its 'image/encoded' is empty");
  add("train-00000-of-00001", records({{picture(2), 1}}));
  add("validation-00000-of-00001", records({{picture(2), 2}}));
  EXPECT_ERROR(open("tfrecord"), "validation-00000-of-00001: the picture at byte ");
  EXPECT_ERROR(open("tfrecord"), " is of class 1, and training has 1 classes, counted from 0");
}

TEST_F(PictureSet, MissingArchivesAreNamed) {
  add_records();
  fs::remove(root() / "train-00000-of-00002");
  const char* const missing = "of 2 files train-N-of-00002 there are 1; number 00000 is missing";
  EXPECT_ERROR(open("imagenet"), missing);
  const fs::path rest = root() / "train-00001-of-00002";
  fs::rename(rest, rest.string() + ".tfrecord");
  EXPECT_ERROR(open("imagenet"), missing);
  EXPECT_ERROR(open_dataset("tar:" + root().string()), "does not hold tar: it should have");
}

TEST_F(PictureSet, OddTarsAreRefused) {
  const auto expect = [&](const std::vector<Member>& members, const std::string& reason) {
    write_tar(root() / "train.tar", members);
    EXPECT_ERROR(open("tar"), reason);
  };
  write_tar(root() / "val.tar", {{"1.jpg", picture(0)}, {"1.cls", text("0")}});
  expect({{"a.jpg", picture(0)}},
         "train.tar: sample 'a', which begins at byte 0: it has a picture, but no class");
  expect({{"a.cls", text("0")}, {"b.jpg", picture(0)}},
         "train.tar: sample 'a', which begins at byte 0: it has a class, but");
  expect({{"b.cls", text("0")}, {"b.jpg", {}}, {"a.cls", text("0")}, {"a.cls", text("0")}},
         "train.tar: member 'a.cls', which begins at byte 2560: the sample has two of its kind");
  expect({{"a.cls", text("cat")}},
         "train.tar: member 'a.cls', which begins at byte 0: 'cat' is no number of a class");
  expect({{"a.cls", text("-1")}}, "'-1' is no number of a class");
  expect({{"a.cls", FileBytes(100, '1')}}, "it is no number");
  expect({{"a.jpg", picture(0)}, {"a.cls", text("1048576")}}, "its label, 1048576, is no class's");
  const std::vector<Member> sample{{"1.jpg", picture(0)}, {"1.cls", text("0")}};
  write_tar(root() / "train.tar", sample);
  FileBytes cut = text(read_text_file(root() / "train.tar", 1 << 20)), two = cut;
  write_tar(root() / "train.tar", {{"2.jpg", picture(0)}, {"2.cls", text("0")}});
  const FileBytes second = text(read_text_file(root() / "train.tar", 1 << 20));
  two.insert(two.end(), second.begin(), second.end());
  while (cut.back() == 0) cut.pop_back();
  cut.resize((cut.size() + 511) / 512 * 512);  // between two members
  add("train.tar", cut);
  EXPECT_ERROR(open("tar"), "train.tar: it is cut short, as it has no end mark");
  add("train.tar", two);
  EXPECT_EQ(open("tar")->train->size(), 2);
  write_tar(root() / "train.tar", {{"BZh91.jpg", picture(0)}, {"BZh91.cls", text("0")}});
  EXPECT_EQ(open("tar")->train->size(), 1);
  for (const int filter :
       {ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_BZIP2, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_ZSTD}) {
    write_tar(root() / "train.tar", sample, filter);
    EXPECT_ERROR(open("tar"), "is compressed, so that its members cannot be read in any order");
  }
  for (const char* damaged : {"no archive at all", ""}) {
    add("train.tar", text(damaged));
    EXPECT_ERROR(open("tar"), "train.tar: at byte 0 or behind it is damaged, or no tar archive");
  }
}

TEST_F(PictureSet, TarMembersThatAreNoPlainFilesOrLeadOutAreRefused) {
  write_tar(root() / "val.tar", {{"1.jpg", picture(0)}, {"1.cls", text("0")}});
  const auto expect = [&](const Member& member, const std::string& reason) {
    write_tar(root() / "train.tar", {{"0.jpg", {}}, {"0.cls", text("0")}, member});
    EXPECT_ERROR(open("tar"), fmt::format("train.tar: member '{}', which begins at byte 1536: {}",
                                          member.name, reason));
  };
  expect({"../a.jpg", picture(0)}, "its name leads out of the archive");
  expect({"a/../../a.cls", text("0")}, "its name leads out of the archive");
  expect({"/a.jpg", picture(0)}, "its name leads out of the archive");
  expect({"a.jpg", {}, AE_IFLNK, "/etc/passwd"}, "it is a link to '/etc/passwd': write the tar");
  expect({"a.cls", {}, AE_IFREG, "0.cls"}, "it is a link to '0.cls': write the tar");
  expect({"a.png", {}, AE_IFIFO}, "it is a device or a pipe");
  expect({"a.png", {}, AE_IFCHR}, "it is a device or a pipe");
  for (const char* const kind : {"sparse", "sparse-pax"}) {
    fs::copy_file(fuzz_corpus_folder() + "/tar/" + kind, root() / "train.tar",
                  fs::copy_options::overwrite_existing);
    EXPECT_ERROR(open("tar"), "member 's.jpg', which begins at byte ");
    EXPECT_ERROR(open("tar"), ": it has holes: write the tar anew without -S");
  }
  // Nobody looks at these.
  write_tar(root() / "train.tar", {{"0.jpg", picture(0)},
                                   {"0.cls", text("0")},
                                   {"../readme.txt", text("hello")},
                                   {"latest", {}, AE_IFLNK, "0.jpg"},
                                   {"folder.jpg/", {}, AE_IFDIR}});
  EXPECT_EQ(open("tar")->train->size(), 1);
}

TEST_F(PictureSet, TarMembersThatClaimHugeSizesAreRefused) {
  write_tar(root() / "val.tar", {{"1.jpg", picture(0)}, {"1.cls", text("0")}});
  write_tar(root() / "train.tar", {{"0.cls", text("0")}, {"0.jpg", {}}, {"a.md", text("hello")}});
  const FileBytes tar = text(read_text_file(root() / "train.tar", 1 << 20));
  for (const uint64_t size : {uint64_t{1} << 20, uint64_t{1} << 40, uint64_t{1} << 62}) {
    add("train.tar", claiming(tar, 1024, size));
    EXPECT_ERROR(open("tar"),
                 fmt::format("member '0.jpg', which begins at byte 1024: the archive ends within "
                             "its {} bytes",
                             size));
    add("train.tar", claiming(tar, 0, size));
    EXPECT_ERROR(open("tar"), "member '0.cls', which begins at byte 0: the archive ends within");
    add("train.tar", claiming(tar, 1536, size));
    EXPECT_ERROR(open("tar"), "train.tar: at byte 1536 or behind it is damaged");
    FileBytes extended = tar;  // the members' header goes on in such a one
    for (const char type : {'x', 'g', 'L', 'K'}) {
      extended[1024 + 156] = static_cast<uint8_t>(type);
      add("train.tar", claiming(extended, 1024, size));
      EXPECT_ERROR(open("tar"), "train.tar: at byte 0 or behind it is damaged");
    }
  }
}

TEST_F(PictureSet, BadTarMembersAreLeftOutIfAsked) {
  const std::vector<Member> good{{"9.jpg", picture(9)}, {"9.cls", text("1")}};
  write_tar(root() / "train-0.tar", {{"0.jpg", picture(0)},
                                     {"0.cls", text("cat")},
                                     {"1.jpg", picture(1)},
                                     {"1.cls", text("0")},
                                     {"../2.jpg", picture(2)},
                                     {"../2.cls", text("0")},
                                     {"3.jpg", picture(3)},
                                     {"4.jpg", text("no picture")},
                                     {"4.cls", text("0")}});
  write_tar(
      root() / "train-1.tar",
      {{"5.jpg", picture(5)}, {"5.cls", text("0")}, {"6.jpg", picture(6)}, {"6.cls", text("1")}});
  const std::string whole = read_text_file(root() / "train-1.tar", 1 << 20);
  add("train-1.tar", text(whole.substr(0, whole.find("6.jpg") + 512 + 100)));
  add("train-2.tar", text("no archive at all"));
  write_tar(root() / "train-3.tar", good, ARCHIVE_FILTER_GZIP);
  write_tar(root() / "train-4.tar", good);
  write_tar(root() / "val.tar", {{"1.jpg", picture(0)}, {"1.cls", text("0")}, {"2.jpg", {}}});
  const auto set = open_dataset("tar:" + root().string(), {.skip_bad = true});
  EXPECT_EQ(set->train->size(), 4);
  EXPECT_EQ(set->train->label(3), 1);
  const Checked checked = check_samples(*set, {});
  EXPECT_EQ(checked.train, 3);
  EXPECT_EQ(checked.test, 1);
  const std::vector<std::string> expected{"train-0.tar: member '0.cls', which begins at byte ",
                                          "train-0.tar: member '../2.jpg', which begins at byte ",
                                          "train-0.tar: sample '3', which begins at byte ",
                                          "train-1.tar: member '6.jpg', which begins at byte ",
                                          "train-2.tar: at byte 0 or behind it is damaged",
                                          "train-3.tar: it is compressed",
                                          "val.tar: sample '2', which begins at byte ",
                                          "train-0.tar, picture 4, which begins at byte "};
  ASSERT_EQ(checked.bad.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NE(checked.bad[i].find(expected[i]), std::string::npos) << checked.bad[i];
  }
}

TEST_F(PictureSet, PicturesThatCannotBeDecodedAreNamed) {
  add_folders();
  FileBytes cut = picture(1);
  cut.resize(cut.size() / 2);
  add("train/bee/1.jpg", cut);
  add("val/cow/8.jpg", text("no picture"));
  const auto set = open("imagenet");
  EXPECT_ERROR(epoch(*set, kCropped), "train/bee/1.jpg: this JPEG is damaged");
  const std::vector<std::string> bad = check_samples(*set, {}).bad;
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_NE(bad[0].find("train/bee/1.jpg: this JPEG is damaged"), std::string::npos);
  EXPECT_NE(bad[1].find("val/cow/8.jpg: this is neither"), std::string::npos);
}

class WritePictures : public PictureSet {
 protected:
  /// As a conversion leaves its folder that has not come to its end.
  static void interrupt(const fs::path& copy) {
    const std::string job = read_text_file(copy / ".crossbow-convert", 1 << 20);
    write_file_atomically(copy / ".crossbow-convert", job.substr(0, job.find("whole")));
  }
  static std::vector<fs::path> tars_in(const fs::path& copy) {
    std::vector<fs::path> tars;
    for (const auto& entry : fs::directory_iterator(copy)) {
      if (entry.path().extension() == ".tar") tars.push_back(entry.path());
    }
    return tars;
  }
};

TEST_F(WritePictures, LeavesOutWhatCannotBeDecodedIfAsked) {
  add_folders();
  add("train/bee/1.jpg", text("no picture"));
  const auto set = open("imagenet");
  const fs::path copy = beside("copy");
  const Written written = write_pictures(*set, "set", copy, {.skip_bad = true});
  ASSERT_EQ(written.skipped.size(), 1u);
  EXPECT_NE(written.skipped[0].find("train/bee/1.jpg: this is neither"), std::string::npos);
  EXPECT_EQ(open_dataset("tfrecord:" + copy.string())->train->size(), 5);
  EXPECT_EQ(written.train, 5);
  EXPECT_EQ(written.test, 3);
  const Written again = write_pictures(*set, "set", copy, {.skip_bad = true});
  EXPECT_EQ(again.skipped, written.skipped);
  EXPECT_EQ(again.train, 5);
}

TEST_F(WritePictures, ListsWhatEarlierAttemptsLeftOut) {
  add_folders();
  add("train/bee/1.jpg", text("no picture"));
  add("val/cow/8.jpg", text("no picture"));
  for (const Container container : {Container::files, Container::tfrecord, Container::tar}) {
    const auto set = open("imagenet");
    const fs::path copy = beside("copy") += std::to_string(static_cast<int>(container));
    const WriteOptions options{.container = container, .skip_bad = true, .threads = 1};
    // The first attempt ends when the training pictures are written.
    WriteOptions stops = options;
    stops.progress = [](std::string_view, int64_t done, int64_t) {
      if (done > 0) fail("stopped");
    };
    EXPECT_ERROR(write_pictures(*set, "set", copy, stops), "stopped");
    const Written written = write_pictures(*set, "set", copy, options);
    EXPECT_GT(written.there, 0) << copy;
    ASSERT_EQ(written.skipped.size(), 2u) << copy;
    EXPECT_NE(written.skipped[0].find("train/bee/1.jpg: this is neither"), std::string::npos);
    EXPECT_NE(written.skipped[1].find("val/cow/8.jpg: this is neither"), std::string::npos);
    EXPECT_EQ(written.train, 5);
    EXPECT_EQ(written.test, 2);
    EXPECT_EQ(open_dataset("imagenet:" + copy.string())->train->size(), 5);
  }
}

TEST_F(WritePictures, DamagedArchivesAreListedToo) {
  add_records();
  FileBytes cut = records({{picture(2), 3, "cow"}, {picture(3), 1, "ant"}});
  cut.pop_back();
  add("train-00001-of-00002", cut);
  const auto set = open_dataset("tfrecord:" + root().string(), {.skip_bad = true});
  const fs::path copy = beside("copy");
  for (int time = 0; time < 2; ++time) {
    const Written written = write_pictures(*set, "set", copy, {.skip_bad = true});
    EXPECT_EQ(written.train, 3);
    EXPECT_EQ(written.test, 1);
    EXPECT_EQ(written.skipped, set->bad);
  }
}

TEST_F(WritePictures, APartOfWhichNothingIsLeftIsRefused) {
  add_folders();
  for (int i = 6; i < 9; ++i) {
    const char* const name = i % 3 == 0 ? "ant" : i % 3 == 1 ? "bee" : "cow";
    add(fmt::format("val/{}/{}.jpg", name, i), text("no picture"));
  }
  const auto set = open("imagenet");
  EXPECT_ERROR(write_pictures(*set, "set", beside("copy"), {.skip_bad = true}),
               "none of the test pictures can be used");
}

TEST_F(WritePictures, GoesOnWhereItWasInterrupted) {
  add_folders();
  const auto set = open("imagenet");
  const fs::path copy = beside("copy");
  write_pictures(*set, "set", copy, {.container = Container::files});
  fs::remove(copy / "train" / "bee" / "00000002.jpg");
  interrupt(copy);
  EXPECT_ERROR(open_dataset("imagenet:" + copy.string()), "was interrupted: call that again");
  EXPECT_ERROR(open_dataset("imagefolder:" + copy.string()), "was interrupted: call that again");
  const Written again = write_pictures(*set, "set", copy, {.container = Container::files});
  EXPECT_EQ(again.files, 9);
  EXPECT_EQ(again.there, 8);
  EXPECT_TRUE(fs::exists(copy / "train" / "bee" / "00000002.jpg"));
  EXPECT_ERROR(write_pictures(*set, "set", copy, {}), "holds what another conversion has written");
  EXPECT_ERROR(write_pictures(*set, "set", root(), {}), "is not empty");
}

TEST_F(WritePictures, SaysThatArchivesAreNotAllThereYet) {
  add_folders();
  const fs::path copy = beside("copy");
  write_pictures(*open("imagenet"), "set", copy, {.container = Container::tar});
  for (const fs::path& tar : tars_in(copy)) fs::remove(tar);
  interrupt(copy);
  EXPECT_ERROR(open_dataset("tar:" + copy.string()), "was interrupted: call that again");
}

TEST_F(WritePictures, AreOfTheSameClassesEachTime) {
  add_folders();
  const fs::path copy = beside("copy");
  write_pictures(*open("imagenet"), "set", copy, {});
  for (const char* part : {"train", "val"}) {
    fs::rename(root() / part / "bee", root() / part / "zebra");
  }
  EXPECT_ERROR(write_pictures(*open("imagenet"), "set", copy, {}),
               "holds what another conversion has written");
}

TEST_F(WritePictures, TarsAreToldFromRecordsByTheirNames) {
  add_folders();
  const fs::path copy = beside("copy");
  write_pictures(*open("imagenet"), "set", copy, {.container = Container::tar});
  const std::vector<fs::path> tars = tars_in(copy);
  for (const fs::path& tar : tars) {  // as TFRecords are numbered
    const std::string part = tar.filename().string().starts_with("train") ? "train" : "val";
    fs::rename(tar, copy / (part + "-00000-of-00001.tar"));
  }
  ASSERT_EQ(tars.size(), 2u);
  EXPECT_EQ(open_dataset("imagenet:" + copy.string())->train->size(),
            open("imagenet")->train->size());
}

TEST_F(WritePictures, ShrinksTheShortSide) {
  add_folders();
  const auto set = open("imagenet");
  const fs::path copy = beside("copy");
  write_pictures(*set, "set", copy, {.short_side = 21});
  const auto small = open_dataset("tfrecord:" + copy.string());
  std::vector<uint8_t> scratch;
  PictureCutter cutter;
  for (int64_t i = 0; i < small->train->size(); ++i) {
    const PictureSize was =
        cutter.open(std::get<EncodedPicture>(set->train->sample(i, &scratch)).file);
    const auto file = std::get<EncodedPicture>(small->train->sample(i, &scratch)).file;
    const PictureSize is = cutter.open(file);
    EXPECT_EQ(is.height, std::min<int64_t>(was.height, 21));
    EXPECT_NEAR(static_cast<double>(is.width) / static_cast<double>(is.height),
                static_cast<double>(was.width) / static_cast<double>(was.height), 0.03);
  }
}

TEST_F(WritePictures, ImagesOfOneSizeBecomePngs) {
  const auto digits = open_dataset("digits");
  Dataset few = *digits;
  const auto first = [&](const Split& split) {
    std::vector<uint8_t> pixels;
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < 80; ++i) {
      const auto* const image = std::get<const uint8_t*>(split.sample(i, nullptr));
      pixels.insert(pixels.end(), image, image + 28 * 28);
      labels.push_back(split.label(i));
    }
    return keep_in_memory(std::move(pixels), 0, 28 * 28, std::move(labels));
  };
  few.train = first(*digits->train);
  few.test = first(*digits->test);
  const fs::path copy = beside("copy");
  write_pictures(few, "digits", copy, {.container = Container::tar});
  const auto set = open_dataset("tar:" + copy.string(), {.image_size = {28, 28}});
  EXPECT_EQ(set->info.class_names, few.info.class_names);
  std::vector<uint8_t> scratch;
  for (int64_t i = 0; i < 30; ++i) {
    EXPECT_EQ(set->train->label(i), few.train->label(i));
    const Image image =
        decode_image(std::get<EncodedPicture>(set->train->sample(i, &scratch)).file);
    const auto* const pixels = std::get<const uint8_t*>(few.train->sample(i, nullptr));
    for (size_t k = 0; k < 28 * 28; ++k) ASSERT_EQ(image.rgb[3 * k], pixels[k]);
  }
}

TEST_F(WritePictures, AClassWithoutPicturesKeepsItsNumber) {
  add("train-00000-of-00001", records({{picture(0), 1, "ant"}, {picture(1), 3, "cow"}}));
  add("validation-00000-of-00001", records({{picture(2), 3, "cow"}}));
  add("classes.txt", text("ant\r\nbee\r\ncow\r\n\r\n"));
  const auto set = open("tfrecord");
  const std::vector<std::string> classes{"ant", "bee", "cow"};
  EXPECT_EQ(set->info.class_names, classes);
  for (const Container container : {Container::files, Container::tfrecord, Container::tar}) {
    const fs::path copy = beside("copy") += std::to_string(static_cast<int>(container));
    write_pictures(*set, "set", copy, {.container = container});
    const auto again = open_dataset("imagenet:" + copy.string());
    EXPECT_EQ(again->info.class_names, classes);
    EXPECT_EQ(again->train->label(1), 2);
  }
}

TEST_F(WritePictures, ALastClassWithoutTrainingPicturesMayHaveTestPictures) {
  add("train-00000-of-00001", records({{picture(0), 1, "ant"}}));
  add("validation-00000-of-00001", records({{picture(1), 2, "bee"}}));
  add("classes.txt", text("ant\nbee\n"));
  const auto set = open("tfrecord");
  EXPECT_EQ(set->info.class_names, (std::vector<std::string>{"ant", "bee"}));
  EXPECT_EQ(set->test->label(0), 1);
  for (const Container container : {Container::tfrecord, Container::tar}) {
    const fs::path copy = beside("copy") += std::to_string(static_cast<int>(container));
    write_pictures(*set, "set", copy, {.container = container});
    EXPECT_EQ(open_dataset("imagenet:" + copy.string())->test->label(0), 1);
  }
}

TEST_F(WritePictures, BeginAgainWhereTheFirstFileWasNeverWritten) {
  add_folders();
  const fs::path copy = beside("copy");
  fs::create_directories(copy);
  write_file(copy / ".crossbow-convert.crossbow-0123456789abcdef.tmp", text("half"));
  EXPECT_NO_THROW(write_pictures(*open("imagenet"), "set", copy, {}));
}

TEST_F(WritePictures, ClassesThatFoldersWouldReorderGetNumbers) {
  add("train-00000-of-00001", records({{picture(0), 1, "zebra"}, {picture(1), 2, "ant/bee"}}));
  add("validation-00000-of-00001", records({{picture(2), 1, "zebra"}}));
  const fs::path copy = beside("copy");
  write_pictures(*open("tfrecord"), "set", copy, {.container = Container::files});
  const auto set = open_dataset("imagenet:" + copy.string());
  EXPECT_EQ(set->info.class_names, (std::vector<std::string>{"000000 zebra", "000001 ant bee"}));
}

}  // namespace
}  // namespace crossbow::data
