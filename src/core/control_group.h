// What Linux's control groups, of either version, leave to this process.
#pragma once

#include <filesystem>
#include <limits>

namespace crossbow {

/// The least of the limits of the process's groups and of those that they lie in; infinite where
/// there is none.
struct GroupLimits {
  double memory_mb = std::numeric_limits<double>::infinity();
  double cpus = std::numeric_limits<double>::infinity();  // CPU time a second
};

/// `root` is the folder in which proc/ and sys/ lie. What cannot be read limits nothing.
GroupLimits group_limits(const std::filesystem::path& root = "/");

}  // namespace crossbow
