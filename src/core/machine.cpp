#include "core/machine.h"

#include <hwloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
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

bool may_run_on(const cpu_set_t& allowed, int cpu) {
  return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed);
}

/// The first allowed CPU of each core, in the topology's order; empty if that cannot be told.
std::vector<int> first_cpus(const cpu_set_t& allowed) {
  std::vector<int> cpus;
  // Where /sys is not mounted hwloc would say so on standard error, and know no more than we.
  std::error_code hidden;
  if (!std::filesystem::exists("/sys/devices/system/cpu/cpu0/topology", hidden)) return cpus;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return cpus;
  const std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  if (hwloc_topology_load(raw) != 0) return cpus;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, core));) {
    int cpu = hwloc_bitmap_first(core->cpuset);
    while (cpu >= 0 && !may_run_on(allowed, cpu)) cpu = hwloc_bitmap_next(core->cpuset, cpu);
    if (cpu >= 0) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> find_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cpus = first_cpus(allowed);
  if (!cpus.empty()) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (may_run_on(allowed, cpu)) cpus.push_back(cpu);
  }
  return cpus.empty() ? std::vector<int>{0} : cpus;
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
