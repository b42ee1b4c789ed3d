// A sample takes no memory by `new` once a thread has had the largest. What libjpeg and libpng take
// by malloc is theirs.
#include "support/allocations.h"

#ifndef CROSSBOW_SANITIZED
#include "data/picture_files.h"
#include "data/pipeline.h"
#include "data/write_pictures.h"

namespace crossbow::data {
namespace {

/// Each in another form, and under a name for which a string needs memory.
void add_pictures(const std::filesystem::path& root) {
  const Image image = gradient(90, 120);
  const std::vector<FileBytes> forms{encode_jpeg(image),
                                     encode_jpeg(image, {.stored = JCS_GRAYSCALE}),
                                     encode_jpeg(image, {.stored = JCS_CMYK}),
                                     encode_jpeg(image, {.progressive = true}),
                                     encode_png(image),
                                     encode_png(image, {.interlaced = true})};
  for (size_t i = 0; i < 4 * forms.size(); ++i) {
    const std::string name = fmt::format("some class {}/a picture of that class, {}", i % 3, i);
    for (const char* part : {"train", "val"}) {
      write_file(root / part / name, forms[i % forms.size()]);
    }
  }
}

int allocations_of_an_epoch(const Dataset& set) {
  Pipeline pipeline(set, set.train,
                    {.batch = 4,
                     .shuffle = true,
                     .augment = {.least_area = 0.3, .mirror = true},
                     .seed = 5,
                     .threads = 1});
  const auto read = [&] {
    pipeline.start(0);
    for (int64_t b = 0; b < pipeline.batches(); ++b) pipeline.release(pipeline.acquire(b));
  };
  read();
  return crossbow::testing::allocations_of(read).all;
}

TEST(PictureAllocations, ASampleMakesNone) {
  const TemporaryFolder folder;
  const auto set_in = [&](const char* name) {
    return open_dataset("imagenet:" + (folder.path() / name).string(), {.image_size = {24, 24}});
  };
  add_pictures(folder.path() / "files");
  const auto set = set_in("files");
  write_pictures(*set, "set", folder.path() / "tars", {.container = Container::tar});
  write_pictures(*set, "set", folder.path() / "records", {.container = Container::tfrecord});
  for (const char* name : {"files", "tars", "records"}) {
    EXPECT_EQ(allocations_of_an_epoch(*set_in(name)), 0) << name;
  }
}

}  // namespace
}  // namespace crossbow::data
#endif
