#include "core/control_group.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/text.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

/// A hierarchy of groups that is mounted: version 2, or version 1's of one or more controllers.
struct Hierarchy {
  std::string controllers;  // "cpu,cpuacct"; empty: version 2
  std::string top;          // the group that the mount point shows
  std::string mount_point;
};

bool names(const std::string& list, const std::string& wanted) {
  return (',' + list + ',').find(',' + wanted + ',') != std::string::npos;
}

/// Of proc/self/mountinfo: "ID PARENT DEVICE TOP MOUNT-POINT OPTIONS … - TYPE SOURCE OPTIONS".
std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> all;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    std::istringstream before(line), after(line.substr(dash + 3));
    std::string skipped, type, options;
    Hierarchy h;
    before >> skipped >> skipped >> skipped >> h.top >> h.mount_point;
    after >> type >> skipped >> options;
    if (type != "cgroup" && type != "cgroup2") continue;
    if (type == "cgroup") h.controllers = options;
    all.push_back(h);
  }
  return all;
}

/// Of proc/self/cgroup: "ID:CONTROLLERS:GROUP", version 2's without controllers.
std::string group_in(const Hierarchy& hierarchy, const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool same =
        hierarchy.controllers.empty()
            ? controllers.empty()
            : !controllers.empty() &&
                  names(hierarchy.controllers, controllers.substr(0, controllers.find(',')));
    if (same) return line.substr(second + 1);
  }
  return "/";
}

/// The folders of the process's group and of those that it lies in, as far as they can be seen.
std::vector<fs::path> folders(const Hierarchy& hierarchy, const fs::path& root) {
  std::string group = group_in(hierarchy, root);
  // A container may see its own group, or one above it, as the top.
  if (hierarchy.top != "/" && (group + '/').starts_with(hierarchy.top + '/')) {
    group.erase(0, hierarchy.top.size());
  }
  const fs::path mount = root / fs::path(hierarchy.mount_point).relative_path();
  std::vector<fs::path> all{mount};
  for (const fs::path& name : fs::path(group).relative_path()) all.push_back(all.back() / name);
  return all;
}

/// The file's first numbers, as many as wanted; false for "max", or if there is no such file.
template <typename... Numbers>
bool read(const fs::path& path, Numbers&... numbers) {
  std::ifstream file(path);
  return static_cast<bool>((file >> ... >> numbers));
}

}  // namespace

GroupLimits group_limits(const fs::path& root) {
  GroupLimits limits;
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    for (const fs::path& folder : folders(hierarchy, root)) {
      double bytes = 0, quota = 0, period = 0;
      if (read(folder / "memory.max", bytes) || read(folder / "memory.limit_in_bytes", bytes)) {
        limits.memory_mb = std::min(limits.memory_mb, mebibytes(bytes));
      }
      if (!read(folder / "cpu.max", quota, period)) {
        read(folder / "cpu.cfs_quota_us", quota);
        read(folder / "cpu.cfs_period_us", period);
      }
      if (quota > 0 && period > 0) limits.cpus = std::min(limits.cpus, quota / period);
    }
  }
  return limits;
}

}  // namespace crossbow
