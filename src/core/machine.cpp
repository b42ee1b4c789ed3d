#include "core/machine.h"

#include <hwloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <thread>

#include "core/control_group.h"
#include "core/error.h"
#include "core/text.h"

namespace crossbow {
namespace {

int sharers = 1;  // processes that use the machine alike, this one included

/// Whole CPUs of the control group's quota; a large number if there is none.
int quota() {
  const double cpus = std::ceil(group_limits().cpus / sharers);
  return cpus < INT_MAX ? std::max(1, static_cast<int>(cpus)) : INT_MAX;
}

/// In MiB.
double limit_of(int resource) {
  rlimit limit{};
  const bool limited = getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? mebibytes(static_cast<double>(limit.rlim_cur))
                 : std::numeric_limits<double>::infinity();
}

/// Of the machine and of the control groups, whose limits are on what is resident, in MiB: this
/// process's part.
double resident_limit() {
  const double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return std::min(mebibytes(machine), group_limits().memory_mb) / sharers;
}

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};

bool may_run_on(const cpu_set_t& allowed, int cpu) {
  return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed);
}

cpu_set_t allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  return allowed;
}

using Core = std::vector<int>;  // its CPUs

/// The allowed CPUs of each core, in the topology's order; empty if that cannot be told.
std::vector<Core> known_cores(const cpu_set_t& allowed) {
  std::vector<Core> cores;
  // Where /sys is not mounted hwloc would say so on standard error, and know no more than we.
  std::error_code hidden;
  if (!std::filesystem::exists("/sys/devices/system/cpu/cpu0/topology", hidden)) return cores;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return cores;
  const std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  if (hwloc_topology_load(raw) != 0) return cores;
  for (hwloc_obj_t found = nullptr;
       (found = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, found));) {
    Core core;
    for (int cpu = -1; (cpu = hwloc_bitmap_next(found->cpuset, cpu)) >= 0;) {
      if (may_run_on(allowed, cpu)) core.push_back(cpu);
    }
    if (!core.empty()) cores.push_back(std::move(core));
  }
  return cores;
}

/// Not empty.
std::vector<Core> allowed_cores() {
  const cpu_set_t allowed = allowed_cpus();
  std::vector<Core> cores = known_cores(allowed);
  if (!cores.empty()) return cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (may_run_on(allowed, cpu)) cores.push_back({cpu});
  }
  return cores.empty() ? std::vector<Core>{{0}} : cores;
}

std::vector<int> first_cpus() {
  std::vector<int> cpus;
  for (const Core& core : allowed_cores()) cpus.push_back(core.front());
  return cpus;
}

}  // namespace

const std::vector<int>& core_cpus() {
  static const std::vector<int> cpus = first_cpus();
  return cpus;
}

void share_machine(int place, int alike, int processes) {
  const std::vector<Core> cores = allowed_cores();
  const size_t n = cores.size();
  const size_t part = std::max<size_t>(1, n / static_cast<size_t>(alike));
  cpu_set_t own;
  CPU_ZERO(&own);
  for (size_t i = 0; i < part; ++i) {
    for (const int cpu : cores[(static_cast<size_t>(place) * part + i) % n]) CPU_SET(cpu, &own);
  }
  sched_setaffinity(0, sizeof own, &own);
  sharers = processes;
}

int physical_cores() {
  return std::min(static_cast<int>(core_cpus().size()), quota());
}

int usable_cpus() {
  const cpu_set_t allowed = allowed_cpus();
  return std::max(1, std::min(CPU_COUNT(&allowed), quota()));
}

double memory_mb() {
  return std::min({resident_limit(), limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA)});
}

double free_memory_mb() {
  // Of the address space, resident, shared, code, 0, data; in pages.
  std::array<double, 6> pages{};
  std::ifstream file("/proc/self/statm");
  for (double& n : pages) file >> n;
  const auto mib = [&](size_t i) {
    return mebibytes(pages[i] * static_cast<double>(sysconf(_SC_PAGE_SIZE)));
  };
  return std::min(
      {resident_limit() - mib(1), limit_of(RLIMIT_AS) - mib(0), limit_of(RLIMIT_DATA) - mib(5)});
}

void expect_memory(double mib) {
  const auto bytes = static_cast<size_t>(mib * (1 << 20));
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(
        "out of memory: {:.0f} MiB more cannot be had; raise the limit that ulimit -v shows, or "
        "have fewer learners or smaller batches",
        mib);
  }
  munmap(memory, bytes);
}

double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace crossbow
