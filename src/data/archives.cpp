#include "data/archives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "core/number.h"
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
  shard.number = number_of<int64_t>(name.substr(dash + 1, of - dash - 1)).value_or(-1);
  const std::string_view rest = name.substr(of + 4);  // "01024", "01024.tfrecord"
  shard.all = number_of<int64_t>(rest.substr(0, rest.find('.'))).value_or(-1);
  return shard.number >= 0 && shard.all >= 0 ? std::optional(shard) : std::nullopt;
}

bool is_archive(std::string_view name, Container container) {
  const bool tar = name.ends_with(".tar");
  if (container == Container::tar) return tar;
  return !tar && (name.find(".tfrecord") != name.npos || shard_number(name).has_value());
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
  std::vector<Skipped> skipped;

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

using Bad = std::function<void(int64_t begin, const std::string& reason)>;

void read_records(const FileBytes& file, Part& part, const Bad& bad) {
  const auto record = [&](int64_t begin, std::span<const uint8_t> data) {
    const Example example = parse_example(data);
    part.add({.offset = static_cast<uint64_t>(begin + kRecordHead),
              .length = static_cast<uint32_t>(data.size()),
              .begin = static_cast<uint32_t>(example.begin),
              .size = static_cast<uint32_t>(example.size)},
             example.label, example.class_name);
  };
  scan_records(file, record, bad);
}

void read_tar(const FileBytes& file, Part& part, const Bad& bad) {
  const auto picture = [&](const TarPicture& p) {
    if (p.size > static_cast<int64_t>(kLargestPicture)) fail("{} bytes are no picture's", p.size);
    const auto size = static_cast<uint32_t>(p.size);
    part.add({.offset = static_cast<uint64_t>(p.begin), .length = size, .size = size}, p.label, {});
  };
  scan_tar(file, picture, bad);
}

Part read_archive(const Path& path, Container container, bool skip_bad) {
  Part part;
  const auto bad = [&](int64_t begin, const std::string& reason) {
    const std::string named = fmt::format("{}: {}", path.string(), reason);
    if (!skip_bad) fail("{}", named);
    part.skipped.push_back({.offset = static_cast<uint64_t>(begin), .reason = named});
  };
  try {
    (container == Container::tar ? read_tar : read_records)(bytes_of_file(path), part, bad);
  } catch (const Error& e) {  // the file itself cannot be read
    if (!skip_bad) throw;
    part.skipped.push_back({.reason = e.what()});
  }
  return part;
}

/// Those of training. Where some of that could not be read, it may have had those of the test, too.
int64_t count_classes(const std::vector<Part>& parts, size_t training) {
  const auto begin = parts.begin(), end = begin + static_cast<ptrdiff_t>(training);
  const bool whole = std::all_of(begin, end, [](const Part& p) { return p.skipped.empty(); });
  int64_t classes = 0;
  for (auto part = begin; part != (whole ? end : parts.end()); ++part) {
    for (const int64_t label : part->labels) classes = std::max(classes, label + 1);
  }
  return classes;
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
  if (!list.entries.empty() || !list.skipped.empty()) return;
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
    const auto at = static_cast<size_t>(i);
    parts[at] = read_archive(folder / names[at], container, options.skip_bad);
  });

  PictureIndex index;
  index.container = container;
  std::vector<std::string> named = read_class_names(folder / kClassNames);
  const int64_t classes = std::max(count_classes(parts, archives.train.size()), std::ssize(named));
  std::map<int64_t, std::string> class_names;
  for (size_t i = 0; i < parts.size(); ++i) {
    PictureList& list = i < archives.train.size() ? index.train : index.test;
    const auto file = static_cast<uint32_t>(list.files.size());
    list.files.add(names[i]);
    for (Skipped& skipped : parts[i].skipped) {
      skipped.file = file;
      list.skipped.push_back(std::move(skipped));
    }
    if (i == archives.train.size()) expect_pictures(folder, index.train, "training");
    for (size_t k = 0; k < parts[i].entries.size(); ++k) {
      PictureEntry& entry = list.entries.emplace_back(parts[i].entries[k]);
      entry.file = file;
      const int64_t label = parts[i].labels[k];
      list.labels.push_back(static_cast<int32_t>(label));
      if (label < classes) continue;
      std::string reason = fmt::format(
          "{}: the picture at byte {} is of class {}, and training has {} classes, counted from 0",
          (folder / names[i]).string(), entry.offset + entry.begin, label, classes);
      if (!options.skip_bad) fail("{}", reason);
      list.skipped.push_back({file, entry.offset, std::move(reason)});
      list.entries.pop_back();
      list.labels.pop_back();
    }
    std::erase_if(parts[i].class_names, [&](const auto& name) { return name.first >= classes; });
    class_names.merge(parts[i].class_names);
    parts[i] = {};
  }
  expect_pictures(folder, index.test, "the test");
  index.classes = numbered_classes(classes);
  if (std::ssize(named) == classes) {
    index.classes = std::move(named);
  } else if (std::ssize(class_names) == classes) {
    for (const auto& [label, name] : class_names) index.classes[static_cast<size_t>(label)] = name;
  }
  return index;
}

}  // namespace crossbow::data
