// A file from one of several mirrors, as it was published.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/fetch/published.h"
#include "data/fetch/transfer.h"

namespace crossbow::data {

/// Bytes done of those of `what`. What it throws ends the work.
using FetchProgress = std::function<void(std::string_view what, int64_t done, int64_t total)>;

/// Gets the file with that digest into `part`; the number of bytes that came. Goes on from what is
/// in `part`, tries one URL after the other, and returns when all is on disk and is right. Throws
/// Error, which names every URL and what was wrong with it, if none has the file; or if `part`
/// cannot be written. What has come then stays in `part`, unless it is wrong.
int64_t download(const std::vector<std::string>& urls, const Digest& digest,
                 const std::filesystem::path& part, const Patience& patience,
                 const FetchProgress& progress);

}  // namespace crossbow::data
