// Pictures in folders of their class: train/CLASS/*, and test/CLASS/* or val/CLASS/*.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/picture_index.h"

namespace crossbow::data {

/// What lies in a folder, sorted by name so that machines agree; hidden entries are left out.
/// Throws Error if it cannot be read.
std::vector<std::string> folders_in(const std::filesystem::path& folder);
std::vector<std::string> files_in(const std::filesystem::path& folder);

bool is_folder(const std::filesystem::path& path);

/// "test", "val" or "validation": the first with folders of classes, since ImageNet's test has
/// none, or else the first there is; empty if there is none.
std::string test_part(const std::filesystem::path& folder);
bool has_class_folders(const std::filesystem::path& folder);
/// train/CLASS and so on.
std::vector<std::string> class_folders(const std::filesystem::path& folder);

/// Without sources and stamps. Throws Error, naming the folder, if a part has no pictures, or a
/// class that training has not.
PictureIndex list_class_folders(const std::filesystem::path& folder);

}  // namespace crossbow::data
