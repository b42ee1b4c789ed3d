#include "core/error.h"
#include "data/idx.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr int64_t kClasses = 10;
constexpr const char* kTrainImages = "train-images-idx3-ubyte";
constexpr const char* kTrainLabels = "train-labels-idx1-ubyte";
constexpr const char* kTestImages = "t10k-images-idx3-ubyte";
constexpr const char* kTestLabels = "t10k-labels-idx1-ubyte";

struct IdxFile {
  Path path;
  std::vector<uint8_t> bytes;
  Idx idx;
};

IdxFile read_idx(const Path& folder, const char* name, int rank) {
  IdxFile file{find_file(folder, name), {}, {}};
  file.bytes = read_file(file.path, size_t{1} << 30);
  file.idx = naming_file(file.path, [&] { return parse_idx(file.bytes); });
  if (file.idx.shape.rank() != rank) {
    fail("{} has {} dimensions where {} were expected: is it another of the set's files?",
         file.path.string(), file.idx.shape.rank(), rank);
  }
  return file;
}

std::vector<int32_t> labels_of(const IdxFile& file) {
  std::vector<int32_t> labels(file.bytes.begin() + static_cast<ptrdiff_t>(file.idx.offset),
                              file.bytes.end());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= kClasses) {
      fail("{}: label {} is {}, but there are {} classes", file.path.string(), i, labels[i],
           kClasses);
    }
  }
  return labels;
}

struct Part {
  Shape image;
  std::shared_ptr<const Split> split;
};

Part open_part(const Path& folder, const char* images_name, const char* labels_name) {
  IdxFile images = read_idx(folder, images_name, 3);
  const IdxFile labels = read_idx(folder, labels_name, 1);
  const Shape& shape = images.idx.shape;
  if (shape[0] != labels.idx.shape[0]) {
    fail("{} holds {} images but {} holds {} labels: get both again", images.path.string(),
         shape[0], labels.path.string(), labels.idx.shape[0]);
  }
  const Shape image{1, shape[1], shape[2]};
  return {image, keep_in_memory(std::move(images.bytes), images.idx.offset, image.elements(),
                                labels_of(labels))};
}

std::shared_ptr<const Dataset> open_mnist(const Path& folder, const OpenOptions&) {
  Part train = open_part(folder, kTrainImages, kTrainLabels);
  Part test = open_part(folder, kTestImages, kTestLabels);
  if (train.image != test.image) {
    fail("the training images in {} are {} but the test images are {}: they are of two sets",
         folder.string(), train.image.str(), test.image.str());
  }
  Info info{"mnist", train.image, kClasses, numbered_classes(kClasses), {}};
  return std::make_shared<Dataset>(
      Dataset{std::move(info), std::move(train.split), std::move(test.split)});
}

}  // namespace

const Source& mnist_source() {
  static const Source source{
      .entry =
          {.name = "mnist",
           .about = "handwritten digits",
           .image = {1, 28, 28},
           .classes = kClasses,
           .train = 60000,
           .test = 10000,
           .source =
               "`crossbow data fetch mnist` gets it, from a mirror of yann.lecun.com/exdb/mnist",
           .files = {kTrainImages, kTrainLabels, kTestImages, kTestLabels}},
      .open = open_mnist,
      .found = [](const Path& folder) { return has_files(folder, mnist_source().entry.files); }};
  return source;
}

}  // namespace crossbow::data
