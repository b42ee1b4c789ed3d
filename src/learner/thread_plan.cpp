#include "learner/thread_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text.h"
#include "device/device.h"

namespace crossbow {

std::string ThreadPlan::text() const {
  std::string text = count(all_workers(), "worker") + " of " + count(threads, "thread");
  if (devices > 1) text += fmt::format(", {} a device", workers);
  if (cpus.empty()) return text;
  for (size_t w = 0; w < cpus.size(); ++w) {
    text += fmt::format("{}{}", w == 0 ? ", on CPUs " : " | ", fmt::join(cpus[w], ","));
  }
  return text;
}

ThreadPlan plan_threads(int devices, int learners, int threads, const std::vector<int>& cores,
                        int usable) {
  const int all = std::min(static_cast<int>(cores.size()), usable);
  const int group = std::max(1, all / devices);
  ThreadPlan plan{devices, std::clamp(group / threads, 1, learners), threads, {}};
  const bool whole = all == static_cast<int>(cores.size()) &&
                     plan.all_workers() * threads == static_cast<int>(cores.size());
  if (!whole) return plan;
  for (int w = 0; w < plan.all_workers(); ++w) {
    const auto first = cores.begin() + w * threads;
    plan.cpus.emplace_back(first, first + threads);
  }
  return plan;
}

ThreadPlan plan_threads(const DeviceKind& kind, int devices, int learners, int threads) {
  if (kind.cpus.empty()) return {devices, learners, 1, {}};
  return plan_threads(devices, learners, threads, kind.cpus, kind.cores);
}

}  // namespace crossbow
