// Puts a public data set into a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/fetch/download.h"
#include "data/fetch/published.h"
#include "data/fetch/transfer.h"

namespace crossbow::data {

struct FetchOptions {
  std::string from;  // URL of a folder with the set's downloads, in place of its mirrors
  Patience patience;
  FetchProgress progress = [](std::string_view, int64_t, int64_t) {};
};

struct Fetched {
  std::vector<std::filesystem::path> files;  // of the set, where they lie now
  int64_t bytes = 0;                         // that have come; 0 if all was there
};

/// Fetches what `folder` lacks, which is made. A file appears under its name when it is whole and
/// right. What comes is kept beside it as NAME.part until then, and a later call goes on from
/// there. Throws Error if something cannot be fetched or written, if a file that is there is
/// another than the published one, or if another process fetches into the folder.
Fetched fetch(const Published& set, const std::filesystem::path& folder,
              const FetchOptions& options = {});

}  // namespace crossbow::data
