#include "plan/roofline.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/seconds_since.h"
#include "kernels/cpu/team.h"
#include "kernels/measure.h"

namespace crossbow {
namespace {

constexpr int kRuns = 20;

/// The least of several runs.
template <typename F>
double seconds_of(const F& run) {
  double least = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    least = std::min(least, seconds_since(start));
  }
  return least;
}

/// Bytes read and written in a second by a copy between two halves of that much memory, which tells
/// the caches that a pass over as much finds itself in.
double copy_bandwidth(size_t working_set, int threads, Device& device) {
  const size_t half = std::max<size_t>(working_set / 2, 1 << 20);
  const Buffer from = device.allocate(half), to = device.allocate(half);
  if (device.is_host()) {
    const size_t share = half / threads;
    const double seconds = seconds_of([&] {
      parallel_for(threads, threads, [&](int64_t t) {
        const size_t at = static_cast<size_t>(t) * share;
        std::memcpy(to.data() + at, from.data() + at, share);
      });
    });
    return 2.0 * static_cast<double>(share) * threads / seconds;
  }
  constexpr int kAtOnce = 20;  // to begin a copy takes time, too
  const auto queue = device.make_queue();
  const double seconds = seconds_of([&] {
    for (int i = 0; i < kAtOnce; ++i) queue->copy(to.data(), from.data(), half);
    queue->finish();
  });
  return 2.0 * static_cast<double>(half) * kAtOnce / seconds;
}

}  // namespace

Roofline measure_roofline(const Program& program, const UpdateTraffic& traffic, Device& device) {
  Roofline bound;
  size_t bytes = 0;
  double at_once = 0;  // elements whose gradient is in no memory
  const auto kernels = program.prepared_kernels();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Program::KernelInfo& info = program.kernel_infos()[i];
    if (info.update && info.flops > 0 && !kernels[i]->updates_few) {
      at_once += static_cast<double>(kernels[i]->outputs[0].elements());
    } else if (info.update || info.kind == "reorder") {
      continue;  // counted below; no layer's work
    }
    const bool ours = kernels[i]->implementation.rfind("loops", 0) == 0;
    if (ours && info.flops == 0) {
      bytes += info.bytes;
    } else {
      bound.library += measure(*kernels[i], device);
    }
  }
  bound.bandwidth = copy_bandwidth(program.arena_bytes(), program.threads(), device);
  bound.element_wise = static_cast<double>(bytes) / bound.bandwidth;
  const ParameterLayout& parameters = *program.parameters();
  const double element_bytes = static_cast<double>(size_of(parameters.dtype));
  const double array_bytes = static_cast<double>(parameters.parameter_elements) * element_bytes;
  bound.update =
      (traffic.accesses * array_bytes - at_once * element_bytes) /
      copy_bandwidth(static_cast<size_t>(traffic.arrays * array_bytes), program.threads(), device);
  return bound;
}

}  // namespace crossbow
