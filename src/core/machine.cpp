#include "core/machine.h"

#include <hwloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <fstream>
#include <memory>

namespace crossbow {
namespace {

/// Whole CPUs of the control group's quota; a large number if there is none.
int quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double microseconds = 0, period = 0;
  if (!(file >> microseconds >> period) || period <= 0) return INT_MAX;
  return std::max(1, static_cast<int>(std::ceil(microseconds / period)));
}

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};

std::vector<int> find_cores() {
  std::vector<int> cpus;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) == 0) {
    const std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
    hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
    if (hwloc_topology_load(raw) == 0) {
      const bool cores = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE) > 0;
      const hwloc_obj_type_t type = cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
      for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(raw, type, core));) {
        cpus.push_back(hwloc_bitmap_first(core->cpuset));
      }
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

}  // namespace

const std::vector<int>& core_cpus() {
  static const std::vector<int> cpus = find_cores();
  return cpus;
}

int physical_cores() {
  return std::min(static_cast<int>(core_cpus().size()), quota());
}

double memory_mb() {
  constexpr double kMiB = 1024 * 1024;
  const double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  double limit = machine;
  std::ifstream file("/sys/fs/cgroup/memory.max");
  if (!(file >> limit)) limit = machine;  // "max"
  return std::min(machine, limit) / kMiB;
}

double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace crossbow
