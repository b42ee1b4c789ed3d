#include "data/archives.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "data/class_folders.h"
#include "data/image.h"
#include "data/parallel.h"
#include "data/source.h"
#include "data/tar.h"
#include "data/tfrecord.h"

namespace crossbow::data {
namespace {

constexpr int64_t kMostClasses = 1 << 20;

/// The N and M of a name that ends in -N-of-M.
struct ShardNumber {
  std::string set;  // what comes before
  int64_t number = 0, all = 0;
};

std::optional<ShardNumber> shard_number(std::string_view name) {
  const size_t of = name.rfind("-of-");
  if (of == name.npos || of == 0) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (dash == name.npos) return std::nullopt;
  ShardNumber shard{std::string(name.substr(0, dash))};
  const auto parse = [](std::string_view digits, int64_t& n) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    return error == std::errc{} && end == digits.data() + digits.size() && n >= 0;
  };
  const bool good = parse(name.substr(dash + 1, of - dash - 1), shard.number) &&
                    parse(name.substr(of + 4), shard.all);
  return good ? std::optional(shard) : std::nullopt;
}

bool is_archive(std::string_view name, Container container) {
  if (container == Container::tar) return name.ends_with(".tar");
  return name.find(".tfrecord") != name.npos || shard_number(name).has_value();
}

/// Whether one of the words stands in the name, with no letters around it.
bool names_any(std::string_view name, std::initializer_list<std::string_view> words) {
  const auto is_letter = [&](size_t at) {
    return at < name.size() && ((name[at] | 32) >= 'a' && (name[at] | 32) <= 'z');
  };
  return std::ranges::any_of(words, [&](std::string_view word) {
    for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
      if (!is_letter(at - 1) && !is_letter(at + word.size())) return true;
    }
    return false;
  });
}

void expect_all_shards(const Path& folder, const std::vector<std::string>& names) {
  std::map<std::string, std::pair<int64_t, std::set<int64_t>>> sets;
  for (const std::string& name : names) {
    const auto shard = shard_number(name);
    if (!shard) continue;
    auto& [all, there] = sets[shard->set];
    if (!there.empty() && all != shard->all) {
      fail("{} has files of two sets, {}-N-of-{:05} and -of-{:05}: take one of them away",
           folder.string(), shard->set, all, shard->all);
    }
    all = shard->all;
    there.insert(shard->number);
  }
  for (const auto& [set, numbers] : sets) {
    const auto& [all, there] = numbers;
    if (std::ssize(there) >= all) continue;
    int64_t missing = 0;
    while (there.contains(missing)) ++missing;
    fail("{}: of {} files {}-N-of-{:05} there are {}; number {:05} is missing", folder.string(),
         all, set, all, there.size(), missing);
  }
}

/// Of one archive.
struct Part {
  std::vector<PictureEntry> entries;
  std::vector<int64_t> labels;
  std::map<int64_t, std::string> class_names;
  std::vector<std::string> bad;  // records that cannot be read

  void add(const PictureEntry& entry, int64_t label, const std::string& class_name) {
    if (label >= kMostClasses) {
      fail("its label, {}, is no class's: they count from 0 and are less than {}", label,
           kMostClasses);
    }
    entries.push_back(entry);
    labels.push_back(label);
    if (!class_name.empty()) class_names.try_emplace(label, class_name);
  }
};

Part read_records(const Path& path, bool skip_bad) {
  Part part;
  const auto record = [&](int64_t begin, std::span<const uint8_t> data) {
    const Example example = parse_example(data);
    part.add({.offset = static_cast<uint64_t>(begin + kRecordHead),
              .length = static_cast<uint32_t>(data.size()),
              .begin = static_cast<uint32_t>(example.begin),
              .size = static_cast<uint32_t>(example.size)},
             example.label, example.class_name);
  };
  const auto bad = [&](const std::string& reason) {
    if (!skip_bad) fail("{}", reason);
    part.bad.push_back(fmt::format("{}: {}", path.string(), reason));
  };
  naming_file(path, [&] { scan_records(bytes_of_file(path), record, bad); });
  return part;
}

Part read_tar(const Path& path) {
  Part part;
  scan_tar(path, [&](const TarPicture& picture) {
    if (picture.size > static_cast<int64_t>(kLargestPicture))
      fail("{} bytes are no picture's", picture.size);
    const auto size = static_cast<uint32_t>(picture.size);
    part.add({.offset = static_cast<uint64_t>(picture.begin), .length = size, .size = size},
             picture.label, {});
  });
  return part;
}

std::vector<std::string> read_class_names(const Path& path) {
  if (type_of(path) != std::filesystem::file_type::regular) return {};
  std::vector<std::string> names;
  std::istringstream lines(read_text_file(path, size_t{64} << 20));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    names.push_back(std::move(line));
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (std::ssize(names) > kMostClasses) {
    fail("{} has {} lines: a set has at most {} classes", path.string(), names.size(),
         kMostClasses);
  }
  return names;
}

void expect_pictures(const Path& folder, const PictureList& list, std::string_view part) {
  if (!list.entries.empty()) return;
  fail("{}: the archives for {} hold no pictures (a tar of tars must be unpacked first)",
       folder.string(), part);
}

}  // namespace

Archives find_archives(const Path& folder, Container container) {
  Archives archives;
  std::vector<std::string> tests;  // whose classes are often not published
  const auto add = [&](const std::string& within, std::string_view part) {
    for (const std::string& name : files_in(folder / within)) {
      if (!is_archive(name, container)) continue;
      const std::string path = (Path(within) / name).string();
      const std::string_view said = part.empty() ? std::string_view(name) : part;
      if (names_any(said, {"train"})) {
        archives.train.push_back(path);
      } else if (names_any(said, {"validation", "val"})) {
        archives.test.push_back(path);
      } else if (names_any(said, {"test"})) {
        tests.push_back(path);
      }
    }
  };
  if (!is_folder(folder)) return archives;
  add({}, {});
  for (const char* part : {"train", "val", "validation", "test"}) {
    if (is_folder(folder / part)) add(part, part);
  }
  if (archives.test.empty()) archives.test = std::move(tests);
  for (const auto* names : {&archives.train, &archives.test}) expect_all_shards(folder, *names);
  return archives;
}

PictureIndex index_archives(const Path& folder, Container container, const Archives& archives,
                            const OpenOptions& options) {
  const std::vector<std::string> names = archives.all();
  std::vector<Part> parts(names.size());
  parallel_for(std::ssize(names), options, "indexing archives", [&](int64_t i) {
    const Path path = folder / names[static_cast<size_t>(i)];
    parts[static_cast<size_t>(i)] =
        container == Container::tar ? read_tar(path) : read_records(path, options.skip_bad);
  });

  PictureIndex index;
  index.container = container;
  for (Part& part : parts) {
    std::ranges::move(part.bad, std::back_inserter(index.bad));
  }
  int64_t classes = 0;
  std::map<int64_t, std::string> class_names;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool training = i < archives.train.size();
    PictureList& list = training ? index.train : index.test;
    const auto file = static_cast<uint32_t>(list.files.size());
    list.files.add(names[i]);
    for (size_t k = 0; k < parts[i].entries.size(); ++k) {
      const int64_t label = parts[i].labels[k];
      if (training) classes = std::max(classes, label + 1);
      if (classes == 0) expect_pictures(folder, index.train, "training");
      if (label >= classes) {
        fail("{}: picture {} is of class {}, and training has {} classes, counted from 0",
             (folder / names[i]).string(), k, label, classes);
      }
      list.entries.push_back(parts[i].entries[k]);
      list.entries.back().file = file;
      list.labels.push_back(static_cast<int32_t>(label));
    }
    class_names.merge(parts[i].class_names);
    parts[i] = {};
  }
  expect_pictures(folder, index.train, "training");
  expect_pictures(folder, index.test, "the test");
  index.classes = numbered_classes(classes);
  if (auto named = read_class_names(folder / kClassNames); std::ssize(named) >= classes) {
    index.classes = std::move(named);
  } else if (std::ssize(class_names) == classes) {
    for (const auto& [label, name] : class_names) index.classes[static_cast<size_t>(label)] = name;
  }
  return index;
}

}  // namespace crossbow::data
