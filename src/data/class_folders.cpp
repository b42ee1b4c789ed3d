#include "data/class_folders.h"

#include <algorithm>

#include "core/error.h"
#include "core/file.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder,
                                  bool (*wanted)(const fs::directory_entry&)) try {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    const bool unfinished = name.find(".crossbow-") != name.npos;  // by a program that was killed
    if (name.front() != '.' && !unfinished && wanted(entry)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
} catch (const fs::filesystem_error& e) {
  fail("cannot read {}: {}", e.path1().string(), e.code().message());
}

std::vector<std::string> classes_in(const fs::path& folder) {
  std::vector<std::string> names = folders_in(folder);
  if (names.empty()) {
    fail("{0} has no folder of a class: put images in {0}/CLASS/", folder.string());
  }
  return names;
}

PictureList list_part(const fs::path& folder, const std::string& part,
                      const std::vector<std::string>& classes) {
  PictureList list;
  for (const std::string& name : classes_in(folder / part)) {
    const auto at = std::find(classes.begin(), classes.end(), name);
    if (at == classes.end()) {
      fail("{}/{} is of a class that the training set does not have", (folder / part).string(),
           name);
    }
    for (const std::string& file : files_in(folder / part / name)) {
      list.files.add(fmt::format("{}/{}/{}", part, name, file));
      list.labels.push_back(static_cast<int32_t>(at - classes.begin()));
    }
  }
  if (list.labels.empty()) {
    fail("{0} holds no images: put JPEG or PNG files in {0}/CLASS/", (folder / part).string());
  }
  return list;
}

}  // namespace

std::vector<std::string> folders_in(const fs::path& folder) {
  return names_in(folder, [](const fs::directory_entry& entry) { return entry.is_directory(); });
}

std::vector<std::string> files_in(const fs::path& folder) {
  return names_in(folder, [](const fs::directory_entry& entry) {
    // A link to nothing is a picture that cannot be read.
    return entry.is_regular_file() || (entry.is_symlink() && !entry.exists());
  });
}

bool is_folder(const fs::path& path) {
  return type_of(path) == fs::file_type::directory;
}

std::string test_part(const fs::path& folder) {
  std::string found;
  for (const char* name : {"test", "val", "validation"}) {
    if (!is_folder(folder / name)) continue;
    if (found.empty()) found = name;
    if (!folders_in(folder / name).empty()) return name;
  }
  return found;
}

bool has_class_folders(const fs::path& folder) {
  return is_folder(folder / "train") && !test_part(folder).empty();
}

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> paths;
  for (const std::string& part : {std::string("train"), test_part(folder)}) {
    for (const std::string& name : folders_in(folder / part)) {
      paths.push_back(fmt::format("{}/{}", part, name));
    }
  }
  return paths;
}

PictureIndex list_class_folders(const fs::path& folder) {
  PictureIndex index;
  index.classes = classes_in(folder / "train");
  index.train = list_part(folder, "train", index.classes);
  index.test = list_part(folder, test_part(folder), index.classes);
  return index;
}

}  // namespace crossbow::data
