#include "data/cifar.h"

#include "data/dataset.h"
#include "data/files.h"

namespace crossbow::data {
namespace {

/// A record whose pixels are all `pixel`.
FileBytes record(std::vector<uint8_t> labels, uint8_t pixel) {
  labels.insert(labels.end(), kCifarPixels, pixel);
  return labels;
}

FileBytes join(FileBytes a, const FileBytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Cifar, ReadsOneLabelByte) {
  CifarImages images;
  parse_cifar(join(record({3}, 30), record({9}, 90)), 10, images);
  parse_cifar(record({1}, 10), 10, images);
  EXPECT_EQ(images.labels, (std::vector<int32_t>{3, 9, 1}));
  ASSERT_EQ(images.pixels.size(), 3u * kCifarPixels);
  EXPECT_EQ(images.pixels[kCifarPixels], 90);
  EXPECT_EQ(images.pixels.back(), 10);
}

TEST(Cifar, KeepsTheFineOfTwoLabelBytes) {
  CifarImages images;
  parse_cifar(join(record({19, 42}, 1), record({3, 99}, 2)), 100, images);
  EXPECT_EQ(images.labels, (std::vector<int32_t>{42, 99}));
  EXPECT_EQ(images.pixels.front(), 1);
  EXPECT_EQ(images.pixels.back(), 2);
}

TEST(Cifar, RefusesBrokenFiles) {
  CifarImages images;
  EXPECT_ERROR(parse_cifar({}, 10, images), "not a whole number of records of 3073");
  FileBytes cut = record({1}, 0);
  cut.pop_back();
  EXPECT_ERROR(parse_cifar(cut, 10, images), "this file of 3072 bytes");
  EXPECT_ERROR(parse_cifar(record({1, 2}, 0), 10, images), "not a whole number of records");
  EXPECT_ERROR(parse_cifar(join(record({1}, 0), record({10}, 0)), 10, images),
               "record 1 has label 10");
  EXPECT_ERROR(parse_cifar(record({1, 100}, 0), 100, images), "record 0 has label 100");
  EXPECT_TRUE(images.labels.empty());
}

TEST(Cifar, OpensTheTenClasses) {
  TemporaryFolder folder;
  const auto inner = folder.path() / "cifar-10-batches-bin";
  for (const int i : {1, 2, 3, 4, 5}) {
    const auto label = static_cast<uint8_t>(i);
    write_file(inner / ("data_batch_" + std::to_string(i) + ".bin"), record({label}, label));
  }
  const std::string spec = "cifar10:" + folder.path().string();
  EXPECT_ERROR(open_dataset(spec), "it should have data_batch_1.bin");
  write_file(inner / "test_batch.bin.gz", gzip(record({9}, 200)));
  const auto set = open_dataset(spec);
  EXPECT_EQ(set->info.image, (Shape{3, 32, 32}));
  EXPECT_EQ(set->info.class_names[9], "truck");
  ASSERT_EQ(set->train->size(), 5);
  EXPECT_EQ(set->train->label(4), 5);
  EXPECT_EQ(pixels_of(*set->train, 4)[77], 5);
  EXPECT_EQ(set->test->label(0), 9);
  EXPECT_EQ(open_dataset("cifar10:" + inner.string())->train->size(), 5);

  write_file(inner / "data_batch_3.bin", {1, 2, 3});
  EXPECT_ERROR(open_dataset(spec), "data_batch_3.bin: this file of 3 bytes");
}

TEST(Cifar, OpensTheHundredClasses) {
  TemporaryFolder folder;
  write_file(folder.path() / "train.bin", record({1, 98}, 5));
  write_file(folder.path() / "test.bin", record({2, 97}, 6));
  const std::string spec = "cifar100:" + folder.path().string();
  EXPECT_EQ(open_dataset(spec)->train->label(0), 98);
  EXPECT_EQ(open_dataset(spec)->info.class_names[98], "98");

  std::ofstream names(folder.path() / "fine_label_names.txt");
  for (int i = 0; i < 100; ++i) names << "kind" << i << "\n";
  names.close();
  EXPECT_EQ(open_dataset(spec)->info.class_names[98], "kind98");
}

}  // namespace
}  // namespace crossbow::data
