#include <algorithm>

#include "data/dataset.h"
#include "data/pictures.h"
#include "data/pipeline.h"

namespace crossbow::data {
namespace {

class ImageFolder : public ::testing::Test {
 protected:
  void add(const std::string& name, const FileBytes& bytes) { write_file(root() / name, bytes); }
  void add_two_classes() {
    add("train/cat/2.png", encode_png(gradient(6, 6)));
    add("train/cat/1.jpg", encode_jpeg(gradient(6, 6)));
    add("train/ant/only.png", encode_png(gradient(6, 6), {.colour = PNG_COLOR_TYPE_GRAY}));
    add("test/cat/a.jpg", encode_jpeg(gradient(6, 6)));
  }
  std::shared_ptr<const Dataset> open(const OpenOptions& options = {}) const {
    return open_dataset("imagefolder:" + root().string(), options);
  }
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(ImageFolder, ReadsClassesInOrderOfTheirNames) {
  add_two_classes();
  const auto set = open();
  EXPECT_EQ(set->info.class_names, (std::vector<std::string>{"ant", "cat"}));
  EXPECT_EQ(set->info.image, (Shape{3, 6, 6}));
  EXPECT_TRUE(set->train->in_memory());
  ASSERT_EQ(set->train->size(), 3);
  EXPECT_EQ(set->train->label(0), 0);
  EXPECT_EQ(set->train->label(1), 1);
  ASSERT_EQ(set->test->size(), 1);
  EXPECT_EQ(set->test->label(0), 1);
  // The PNG in grey is the first, the PNG in colour the last.
  EXPECT_EQ(pixels_of(*set->train, 0)[36 + 5], gradient(6, 6).rgb[0]);
  EXPECT_EQ(pixels_of(*set->train, 2)[36 + 5], gradient(6, 6).rgb[3 * 5 + 1]);
}

TEST_F(ImageFolder, DecodesWhenAskedIfTheBudgetIsSmall) {
  add_two_classes();
  const auto kept = open(), decoded = open({.memory_budget = 3 * 3 * 36});
  EXPECT_FALSE(decoded->train->in_memory());
  Pipeline a(*kept, kept->train, {.batch = 3}), b(*decoded, decoded->train, {.batch = 3});
  a.start(0);
  b.start(0);
  const float* const x = a.acquire(0).samples();
  EXPECT_TRUE(std::equal(x, x + 3 * 3 * 36, b.acquire(0).samples()));
}

TEST_F(ImageFolder, FitsImagesToTheSizeAskedFor) {
  add_two_classes();
  add("train/ant/wide.jpg", encode_jpeg(gradient(10, 30)));
  EXPECT_EQ(open({.image_size = {4, 5}})->info.image, (Shape{3, 4, 5}));
  EXPECT_ERROR(open({.image_size = {-1, -1}}), "an image size of -1");
}

TEST_F(ImageFolder, TakesValForTest) {
  add_two_classes();
  std::filesystem::rename(root() / "test", root() / "val");
  EXPECT_EQ(open()->test->size(), 1);
}

TEST_F(ImageFolder, ReportsProgressToTheEnd) {
  add_two_classes();
  int64_t last = 0, whole = -1;
  open({.progress = [&](std::string_view, int64_t done, int64_t total) {
    last = done;
    whole = total;
  }});
  EXPECT_EQ(last, whole);
}

TEST_F(ImageFolder, NamesADamagedFile) {
  add_two_classes();
  FileBytes cut = encode_png(gradient(6, 6));
  cut.resize(cut.size() / 2);
  add("train/cat/bad.png", cut);
  EXPECT_ERROR(open(), "train/cat/bad.png: this PNG is damaged");
  add("train/cat/bad.png", {'h', 'i'});
  EXPECT_ERROR(open(), "train/cat/bad.png: this is neither a JPEG nor a PNG");
}

TEST_F(ImageFolder, NamesALinkToNothing) {
  add_two_classes();
  std::filesystem::create_symlink("not fetched", root() / "train" / "cat" / "link.png");
  EXPECT_ERROR(open(), "train/cat/link.png");
}

TEST_F(ImageFolder, LeavesHiddenFilesOut) {
  add_two_classes();
  add("train/cat/.DS_Store", {1, 2, 3});
  EXPECT_EQ(open()->train->size(), 3);
}

TEST_F(ImageFolder, SaysWhatIsMissing) {
  EXPECT_ERROR(open(), "it should have train/CLASS/*, test/CLASS/*");
  std::filesystem::create_directories(root() / "train");
  std::filesystem::create_directories(root() / "test" / "cat");
  EXPECT_ERROR(open(), "/train has no folder of a class");
  std::filesystem::create_directories(root() / "train" / "cat");
  EXPECT_ERROR(open(), "/train holds no images");
  add("train/cat/1.png", encode_png(gradient(4, 4)));
  EXPECT_ERROR(open(), "/test holds no images");
  add("test/dog/1.png", encode_png(gradient(4, 4)));
  EXPECT_ERROR(open(), "/test/dog is of a class that the training set does not have");
}

}  // namespace
}  // namespace crossbow::data
