#include "core/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>

namespace crossbow {
namespace {

/// Whole CPUs of the control group's quota; a large number if there is none.
int quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double microseconds = 0, period = 0;
  if (!(file >> microseconds >> period) || period <= 0) return CPU_SETSIZE;
  return std::max(1, static_cast<int>(std::ceil(microseconds / period)));
}

}  // namespace

int physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string path =
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings", cpu);
    std::string siblings;
    if (!(std::ifstream(path) >> siblings)) siblings = fmt::format("cpu{}", cpu);
    cores.insert(siblings);
  }
  return std::clamp(static_cast<int>(cores.size()), 1, quota());
}

double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace crossbow
