// The files of a set out of an archive, by libarchive.
#pragma once

#include <filesystem>

#include "data/fetch/download.h"
#include "data/fetch/published.h"

namespace crossbow::data {

/// Puts what `from` gives, which `archive` holds, into `folder`: all of it, or nothing. Other
/// members are passed over. Throws Error, naming the archive, if it is damaged, lacks a file, has
/// one of another length, or has members that such an archive does not have: links, devices, paths
/// that lead out of it.
void unpack(const std::filesystem::path& archive, const Download& from,
            const std::filesystem::path& folder, const FetchProgress& progress);

}  // namespace crossbow::data
