#include "data/dataset.h"

#include "data/files.h"

namespace crossbow::data {
namespace {

TEST(OpenDataset, SaysWhichNamesThereAre) {
  EXPECT_THROW(open_dataset("mnits"), UsageError);
  EXPECT_ERROR(open_dataset("mnits"),
               "no data set 'mnits' among digits, mnist, cifar10, cifar100, imagefolder, imagenet, "
               "tfrecord, "
               "tar, libsvm, ratings, "
               "like-movielens, "
               "like-covtype, like-w8a, like-real-sim, like-delicious; "
               "did you mean 'mnist'?");
}

TEST(OpenDataset, RefusesFoldersThatMakeNoSense) {
  EXPECT_THROW(open_dataset("imagefolder"), UsageError);
  EXPECT_ERROR(open_dataset("imagefolder"), "as in imagefolder:DIR");
  EXPECT_ERROR(open_dataset("digits:/tmp"), "takes no folder");
  EXPECT_ERROR(open_dataset("mnist:"), "names no folder");
  EXPECT_ERROR(open_dataset("libsvm"), "needs a file, as in libsvm:FILE");
  EXPECT_ERROR(open_dataset("libsvm:"), "names no file");
}

TEST(OpenDataset, SaysWhereAMissingSetShouldBeAndWhereItIsFrom) {
  const ScopedVariable root("CROSSBOW_DATA", "/nowhere");
  const std::string error = error_of([] { open_dataset("mnist"); });
  for (const char* part : {"/nowhere/mnist", "train-images-idx3-ubyte", "yann.lecun.com"}) {
    EXPECT_NE(error.find(part), error.npos) << error;
  }
  EXPECT_EQ(error.find('\n'), error.npos);
}

TEST(OpenDataset, LooksInTheCurrentFolderByDefault) {
  const ScopedVariable root("CROSSBOW_DATA", nullptr);
  const std::string folder = catalogue().at(1).folder;
  EXPECT_EQ(folder, "data/mnist");
}

TEST(Catalogue, SaysWhatIsThere) {
  TemporaryFolder folder;
  const ScopedVariable root("CROSSBOW_DATA", folder.path().c_str());
  const auto entry = [](const std::string& name) {
    for (const CatalogueEntry& e : catalogue()) {
      if (e.name == name) return e;
    }
    throw std::out_of_range(name);
  };
  EXPECT_TRUE(entry("digits").found);
  EXPECT_FALSE(entry("imagefolder").found);
  EXPECT_FALSE(entry("cifar100").found);
  write_file(folder.path() / "cifar100" / "train.bin", {1});
  EXPECT_FALSE(entry("cifar100").found);
  write_file(folder.path() / "cifar100" / "test.bin", {1});
  EXPECT_TRUE(entry("cifar100").found);
  EXPECT_EQ(entry("cifar100").folder, (folder.path() / "cifar100").string());
}

}  // namespace
}  // namespace crossbow::data
