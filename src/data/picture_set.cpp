// Sets of encoded pictures by name: ImageNet's and others of its kind.
#include <sys/stat.h>

#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/archives.h"
#include "data/class_folders.h"
#include "data/picture_split.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr int64_t kSide = 224;
constexpr size_t kLargestIndex = size_t{4} << 30;
constexpr const char* kIndexName = ".crossbow-index";

/// What of a folder the index is of.
struct Found {
  Container container = Container::files;
  Archives archives;

  std::vector<std::string> names(const Path& folder) const {
    if (container == Container::files) return class_folders(folder);
    std::vector<std::string> names = archives.all();
    names.emplace_back(kClassNames);
    return names;
  }
};

std::optional<Found> find(const Path& folder, std::initializer_list<Container> containers) {
  for (const Container container : containers) {
    Found found{container, {}};
    if (container == Container::files) {
      if (has_class_folders(folder) && !class_folders(folder).empty()) return found;
      continue;
    }
    found.archives = find_archives(folder, container);
    if (found.archives.found()) return found;
  }
  return std::nullopt;
}

Stamp stamp_of(const Path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {S_ISDIR(status.st_mode) ? 0 : static_cast<uint64_t>(status.st_size),
          int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

/// How the set is found, before it is read: what changes meanwhile makes an index stale.
struct State {
  Container container;
  Names sources;
  std::vector<Stamp> stamps;
};

State state_of(const Path& folder, const Found& found) {
  State state{found.container, {}, {}};
  for (const std::string& name : found.names(folder)) {
    state.sources.add(name);
    state.stamps.push_back(stamp_of(folder / name));
  }
  return state;
}

/// In the set's folder; or, where that cannot be written, with what saves time.
std::vector<Path> index_paths(const Path& folder) {
  std::vector<Path> paths{folder / kIndexName};
  std::error_code ignored;
  const Path absolute = std::filesystem::canonical(folder, ignored);
  if (const Path cache = cache_folder(); !cache.empty()) {
    paths.push_back(cache / "indexes" /
                    fmt::format("{:016x}", std::hash<std::string>{}(absolute.string())));
  }
  return paths;
}

std::optional<PictureIndex> load(const Path& folder, const State& now) {
  for (const Path& path : index_paths(folder)) {
    if (type_of(path) != std::filesystem::file_type::regular) continue;
    try {
      std::optional<PictureIndex> index = parse_index(read_file(path, kLargestIndex));
      const bool fits = index && index->container == now.container &&
                        index->sources == now.sources && index->stamps == now.stamps;
      if (fits) return index;
    } catch (const Error&) {
      // It is made anew, as if there were none.
    }
  }
  return std::nullopt;
}

/// Where it was kept; empty if nowhere.
Path save(const PictureIndex& index, const Path& folder) {
  const std::vector<uint8_t> bytes = to_bytes(index);
  for (const Path& path : index_paths(folder)) {
    try {
      std::error_code ignored;
      std::filesystem::create_directories(path.parent_path(), ignored);
      write_file_atomically(path, {bytes});
      return path;
    } catch (const Error&) {
      // Reading everything again next time is slower, but right.
    }
  }
  return {};
}

PictureIndex make_index(const Path& folder, const Found& found, State state,
                        const OpenOptions& options) {
  PictureIndex index = found.container == Container::files
                           ? list_class_folders(folder)
                           : index_archives(folder, found.container, found.archives, options);
  index.sources = std::move(state.sources);
  index.stamps = std::move(state.stamps);
  return index;
}

std::vector<std::string> reasons_of(const PictureIndex& index) {
  std::vector<std::string> reasons;
  for (const PictureList* list : {&index.train, &index.test}) {
    for (const Skipped& skipped : list->skipped) reasons.push_back(skipped.reason);
  }
  return reasons;
}

std::string_view name_of(Container container) {
  constexpr std::string_view kNames[] = {"class folders", "TFRecords", "tars"};
  return kNames[static_cast<size_t>(container)];
}

std::shared_ptr<const Dataset> open(const char* name, const Path& folder,
                                    const std::optional<Found>& found, const OpenOptions& options) {
  if (!found) fail("{} holds no pictures of that form any more", folder.string());
  Info info{.name = name};
  State state = state_of(folder, *found);
  std::optional<PictureIndex> index = load(folder, state);
  if (!index) {
    index = make_index(folder, *found, std::move(state), options);
    const Path kept = reasons_of(*index).empty() ? save(*index, folder) : Path();
    info.note =
        fmt::format("{}: indexed {} pictures in {}{}", folder.string(),
                    grouped(std::ssize(index->train.labels) + std::ssize(index->test.labels)),
                    name_of(found->container),
                    kept.empty() ? "; the index cannot be kept"
                                 : fmt::format("; the index is kept in {}", kept.string()));
  }
  const auto side = [](int64_t wanted) { return wanted > 0 ? wanted : kSide; };
  info.image = {3, side(options.image_size[0]), side(options.image_size[1])};
  info.classes = std::ssize(index->classes);
  info.class_names = std::move(index->classes);
  info.normalisation = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
  std::vector<std::string> bad = reasons_of(*index);
  auto train = picture_split(folder, index->container, std::move(index->train));
  auto test = picture_split(folder, index->container, std::move(index->test));
  return std::make_shared<Dataset>(
      Dataset{std::move(info), std::move(train), std::move(test), std::move(bad)});
}

template <Container... kContainers>
std::optional<Found> find_any(const Path& folder) {
  return find(folder, {kContainers...});
}

}  // namespace

const Source& imagenet_source() {
  constexpr auto kFindSet = find_any<Container::files, Container::tfrecord, Container::tar>;
  static const Source source{
      .entry = {.name = "imagenet",
                .about = "ImageNet, or other pictures in one of its forms",
                .source = "https://www.image-net.org/download, or pictures of your own",
                .files = {"train/CLASS/* and val/CLASS/*",
                          "or TFRecords (train-00000-of-01024, validation-00000-of-00128)",
                          "or tars (train-000000.tar, val-000000.tar)"},
                .pictures = true},
      .open =
          [](const Path& folder, const OpenOptions& options) {
            return open("imagenet", folder, kFindSet(folder), options);
          },
      .found = [](const Path& folder) { return kFindSet(folder).has_value(); }};
  return source;
}

const Source& tfrecord_source() {
  constexpr auto kFindSet = find_any<Container::tfrecord>;
  static const Source source{
      .entry = {.name = "tfrecord",
                .about = "pictures in TensorFlow's records",
                .source = "crossbow convert, TensorFlow Datasets, or TensorFlow's own scripts",
                .files = {"*train*-00000-of-00008", "*validation*-00000-of-00001 (or val, test)"},
                .pictures = true},
      .open =
          [](const Path& folder, const OpenOptions& options) {
            return open("tfrecord", folder, kFindSet(folder), options);
          },
      .found = [](const Path& folder) { return kFindSet(folder).has_value(); }};
  return source;
}

const Source& tar_source() {
  constexpr auto kFindSet = find_any<Container::tar>;
  static const Source source{
      .entry = {.name = "tar",
                .about = "pictures in tars, as WebDataset has them: a/17.jpg and a/17.cls",
                .source = "crossbow convert, or WebDataset's writers",
                .files = {"*train*.tar", "*val*.tar (or test)"},
                .pictures = true},
      .open =
          [](const Path& folder, const OpenOptions& options) {
            return open("tar", folder, kFindSet(folder), options);
          },
      .found = [](const Path& folder) { return kFindSet(folder).has_value(); }};
  return source;
}

}  // namespace crossbow::data
