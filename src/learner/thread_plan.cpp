#include "learner/thread_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "device/device.h"

namespace crossbow {

namespace {

void tie_down(ThreadPlan& plan, const std::vector<int>& cores) {
  auto first = cores.begin();
  for (int w = 0; w < plan.all_workers(); ++w) {
    plan.cpus.emplace_back(first, first + plan.threads_of(w));
    first += plan.threads_of(w);
  }
}

}  // namespace

int ThreadPlan::all_threads() const {
  return unlike.empty() ? all_workers() * threads
                        : std::accumulate(unlike.begin(), unlike.end(), 0);
}

std::string ThreadPlan::text() const {
  std::string text = count(all_workers(), "worker") + " of ";
  text += unlike.empty() ? count(threads, "thread")
                         : fmt::format("{} threads", fmt::join(unlike, ", "));
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
  ThreadPlan plan{devices, std::clamp(group / threads, 1, learners), threads};
  const bool whole = all == static_cast<int>(cores.size()) &&
                     plan.all_workers() * threads == static_cast<int>(cores.size());
  if (whole) tie_down(plan, cores);
  return plan;
}

ThreadPlan plan_unlike_threads(const DeviceKind& kind, std::vector<int> threads) {
  ThreadPlan plan{.workers = static_cast<int>(threads.size())};
  plan.threads = *std::max_element(threads.begin(), threads.end());
  const bool alike = plan.threads == *std::min_element(threads.begin(), threads.end());
  if (!alike) plan.unlike = std::move(threads);
  const auto all = static_cast<int>(kind.cpus.size());
  if (all == kind.cores && plan.all_threads() == all) tie_down(plan, kind.cpus);
  return plan;
}

ThreadPlan plan_threads(const DeviceKind& kind, int devices, int learners, int threads) {
  if (kind.cpus.empty()) return {devices, learners, 1};
  return plan_threads(devices, learners, threads, kind.cpus, kind.cores);
}

}  // namespace crossbow
