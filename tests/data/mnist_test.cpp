#include "data/dataset.h"
#include "data/files.h"
#include "data/idx.h"

namespace crossbow::data {
namespace {

TEST(Idx, ReadsSizesAndPlace) {
  const Idx idx = parse_idx(idx_file({2, 3, 1}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(idx.shape, (Shape{2, 3, 1}));
  EXPECT_EQ(idx.offset, 16u);
}

TEST(Idx, RefusesWhatIsNoIdxFile) {
  EXPECT_ERROR(parse_idx({}), "not an IDX file");
  EXPECT_ERROR(parse_idx(FileBytes{1, 0, 8, 1, 0, 0, 0, 1, 5}), "not an IDX file");
  EXPECT_ERROR(parse_idx(FileBytes{0, 0, 13, 1, 0, 0, 0, 1, 5}), "does not hold unsigned bytes");
  EXPECT_ERROR(parse_idx(FileBytes{0, 0, 8, 4}), "has 4 dimensions");
  EXPECT_ERROR(parse_idx(FileBytes{0, 0, 8, 0}), "has 0 dimensions");
  EXPECT_ERROR(parse_idx(FileBytes{0, 0, 8, 3, 0, 0, 0, 1}), "cut short in its header");
}

TEST(Idx, RefusesSizesThatDoNotFit) {
  EXPECT_ERROR(parse_idx(idx_file({3}, {1, 2})), "should hold 3 bytes of data but holds 2");
  EXPECT_ERROR(parse_idx(idx_file({1}, {1, 2})), "should hold 1 bytes of data but holds 2");
  EXPECT_ERROR(parse_idx(idx_file({0, 28, 28}, {})), "is empty");
  EXPECT_ERROR(parse_idx(idx_file({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {1})), "claims to hold");
}

class Mnist : public ::testing::Test {
 protected:
  Mnist() {
    write("train-images-idx3-ubyte", idx_file({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    write("train-labels-idx1-ubyte", idx_file({2}, {7, 3}));
    write("t10k-images-idx3-ubyte", idx_file({1, 2, 3}, {9, 8, 7, 6, 5, 4}));
    write("t10k-labels-idx1-ubyte", idx_file({1}, {9}));
  }
  void write(const std::string& name, const FileBytes& bytes) {
    write_file(folder_.path() / name, bytes);
  }
  std::shared_ptr<const Dataset> open() const {
    return open_dataset("mnist:" + folder_.path().string());
  }
  TemporaryFolder folder_;
};

TEST_F(Mnist, ReadsImagesAndLabels) {
  const auto set = open();
  EXPECT_EQ(set->info.image, (Shape{1, 2, 3}));
  EXPECT_EQ(set->info.classes, 10);
  ASSERT_EQ(set->train->size(), 2);
  EXPECT_EQ(set->train->label(1), 3);
  EXPECT_EQ(pixels_of(*set->train, 1)[0], 7);
  ASSERT_EQ(set->test->size(), 1);
  EXPECT_EQ(pixels_of(*set->test, 0)[5], 4);
}

TEST_F(Mnist, ReadsGzippedFiles) {
  const std::string name = "train-labels-idx1-ubyte";
  std::filesystem::remove(folder_.path() / name);
  write(name + ".gz", gzip(idx_file({2}, {5, 6})));
  EXPECT_EQ(open()->train->label(1), 6);
}

TEST_F(Mnist, NamesADamagedFile) {
  const std::string name = "train-images-idx3-ubyte";
  write(name, idx_file({2, 2, 3}, {1}));
  EXPECT_ERROR(open(), name + ": this IDX file should hold 12 bytes");
  write(name, idx_file({2}, {1, 2}));
  EXPECT_ERROR(open(), name + " has 1 dimensions where 3 were expected");
  write(name, idx_file({1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_ERROR(open(), "holds 1 images but");
  write(name, idx_file({2, 1, 1}, {1, 2}));
  EXPECT_ERROR(open(), "they are of two sets");
}

TEST_F(Mnist, RefusesALabelOutOfRange) {
  write("t10k-labels-idx1-ubyte", idx_file({1}, {10}));
  EXPECT_ERROR(open(), "t10k-labels-idx1-ubyte: label 0 is 10, but there are 10 classes");
}

TEST_F(Mnist, RefusesDamagedGzipFiles) {
  const std::string name = "train-labels-idx1-ubyte";
  std::filesystem::remove(folder_.path() / name);
  FileBytes packed = gzip(idx_file({2}, {5, 6}));
  FileBytes cut(packed.begin(), packed.end() - 9);
  write(name + ".gz", cut);
  EXPECT_ERROR(open(), name + ".gz is cut short");
  packed[packed.size() - 6] ^= 1;  // in the CRC
  write(name + ".gz", packed);
  EXPECT_ERROR(open(), name + ".gz (data error): get it again");
}

TEST(RealMnist, HoldsWhatItShould) {
  const std::filesystem::path folder = real_data("mnist");
  if (folder.empty()) GTEST_SKIP() << "MNIST is not on this machine: set CROSSBOW_DATA";
  const auto set = open_dataset("mnist:" + folder.string());
  EXPECT_EQ(set->info.image, (Shape{1, 28, 28}));
  ASSERT_EQ(set->train->size(), 60000);
  ASSERT_EQ(set->test->size(), 10000);
  const std::vector<int> first{5, 0, 4, 1, 9, 2, 1, 3, 1, 4};
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(set->train->label(static_cast<int64_t>(i)), first[i]);
  }
  double sum = 0;
  for (int64_t i = 0; i < 60000; ++i) {
    const uint8_t* p = pixels_of(*set->train, i);
    for (int k = 0; k < 784; ++k) sum += p[k];
  }
  EXPECT_NEAR(sum / (60000 * 784.0 * 255), 0.1307, 0.0001);
}

}  // namespace
}  // namespace crossbow::data
