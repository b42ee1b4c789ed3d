#include "data/idx.h"

#include "core/error.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr size_t kLimit = size_t{1} << 30;
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
  file.bytes = read_file(file.path, kLimit);
  try {
    file.idx = parse_idx(file.bytes);
  } catch (const Error& e) {
    fail("{}: {}", file.path.string(), e.what());
  }
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

Idx parse_idx(std::span<const uint8_t> file) {
  if (file.size() < 4 || file[0] != 0 || file[1] != 0) fail("this is not an IDX file");
  const int rank = file[3];
  if (file[2] != 8) fail("this IDX file does not hold unsigned bytes (type {:#04x})", file[2]);
  if (rank < 1 || rank > 3) fail("this IDX file has {} dimensions instead of 1 to 3", rank);
  Idx idx{{}, 4 + 4 * static_cast<size_t>(rank)};
  if (file.size() < idx.offset) fail("this IDX file is cut short in its header");

  std::array<int64_t, 3> sizes{};
  int64_t expected = 1;
  for (int d = 0; d < rank; ++d) {
    const uint8_t* p = file.data() + 4 + 4 * d;
    sizes[d] = int64_t{p[0]} << 24 | p[1] << 16 | p[2] << 8 | p[3];
    if (sizes[d] == 0) fail("this IDX file is empty: one of its sizes is 0");
    // Division keeps three 32-bit sizes from overflowing 64 bits.
    if (sizes[d] > static_cast<int64_t>(kLimit) / expected) {
      fail("this IDX file claims to hold more than {} bytes", kLimit);
    }
    expected *= sizes[d];
  }
  const auto found = static_cast<int64_t>(file.size() - idx.offset);
  if (found != expected) {
    fail("this IDX file should hold {} bytes of data but holds {}: get it again", expected, found);
  }
  idx.shape = Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(rank)));
  return idx;
}

const Source& mnist_source() {
  static const Source source{
      {"mnist",
       "handwritten digits",
       {1, 28, 28},
       kClasses,
       60000,
       10000,
       "get it from yann.lecun.com/exdb/mnist or a mirror",
       {kTrainImages, kTrainLabels, kTestImages, kTestLabels}},
      open_mnist,
      [](const Path& folder) { return has_files(folder, mnist_source().entry.files); }};
  return source;
}

}  // namespace crossbow::data
