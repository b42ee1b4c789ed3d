#include "data/fetch/published.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/nearest.h"

namespace crossbow::data {
namespace {

/// An IDX file, which mirrors have gzipped.
Download idx(const char* name, const Digest& packed, const Digest& contents) {
  Download download;
  download.file = std::string(name) + ".gz";
  download.digest = packed;
  download.gives = {{name, contents}};
  return download;
}

Published mnist() {
  Published set;
  set.name = "mnist";
  set.mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                 "https://storage.googleapis.com/cvdf-datasets/mnist/"};
  set.downloads = {
      idx("train-images-idx3-ubyte",
          {9'912'422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
          {47'040'016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"}),
      idx("train-labels-idx1-ubyte",
          {28'881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
          {60'008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"}),
      idx("t10k-images-idx3-ubyte",
          {1'648'877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
          {7'840'016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"}),
      idx("t10k-labels-idx1-ubyte",
          {4'542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
          {10'008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"})};
  return set;
}

/// All of a set in one archive.
Published cifar(const char* name, const char* file, const char* archive_folder) {
  Published set;
  set.name = name;
  set.mirrors = {"https://www.cs.toronto.edu/~kriz/"};
  Download& archive = set.downloads.emplace_back();
  archive.file = file;
  archive.archive_folder = archive_folder;
  return set;
}

Published cifar10() {
  Published set = cifar("cifar10", "cifar-10-binary.tar.gz", "cifar-10-batches-bin");
  Download& archive = set.downloads[0];
  archive.digest = {170'052'171,
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"};
  const auto add = [&](const char* batch, const char* sha256) {
    constexpr int64_t kBytes = 30'730'000;
    archive.gives.push_back({batch, Digest{kBytes, sha256}});
  };
  add("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5");
  add("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed");
  add("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67");
  add("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48");
  add("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add");
  add("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b");
  return set;
}

Published cifar100() {
  Published set = cifar("cifar100", "cifar-100-binary.tar.gz", "cifar-100-binary");
  Download& archive = set.downloads[0];
  archive.digest = {168'513'733,
                    "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"};
  archive.gives = {
      {"train.bin",
       Digest{153'700'000, "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"}},
      {"test.bin",
       Digest{30'740'000, "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"}},
      {"fine_label_names.txt", {}}};
  return set;
}

}  // namespace

const std::vector<Published>& published_sets() {
  static const std::vector<Published> sets{mnist(), cifar10(), cifar100()};
  return sets;
}

const Published& published_set(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Published& set : published_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  fail_usage("no set '{}' can be fetched: there are {}{}", name, fmt::join(names, ", "),
             did_you_mean(name, names));
}

}  // namespace crossbow::data
