// How fast a model trains, with its data at hand in memory, and where a step's time goes.
#pragma once

#include <string>
#include <vector>

#include "learner/arrangement.h"
#include "plan/compiled_model.h"
#include "plan/roofline.h"
#include "train/run_config.h"

namespace crossbow {

struct BenchmarkResult {
  struct OpTime {
    std::string name, kind, implementation;
    double ms = 0;        // of a step, measured op by op
    double fraction = 0;  // of all ops' sum
    double flops = 0;     // of a step
  };

  Arrangement arrangement;                        // given, or the fastest
  double images_per_second = 0;                   // the median of some windows
  double slowest_window = 0, fastest_window = 0;  // images/s
  double step_ms = 0;                             // of one learner, others beside it
  double sync_work = 0, sync_wait = 0;  // shares of the threads' time: exchanges, waiting for them
  double flops_per_image = 0;           // forward and backward
  size_t arena_bytes = 0, arena_bytes_without_reuse = 0;
  int64_t parameters = 0;
  std::vector<OpTime> ops;  // as they run
  Roofline bound;           // what a step could not be faster than

  /// How much of the bound the step reaches, 1 being all.
  double reached() const { return bound.seconds() * 1e3 / step_ms; }
};

/// Trains on noise for about `seconds` after a warm-up, then half as long again with a clock around
/// each op, and measures the bound; where the number of learners is open, first a quarter as long
/// with each of the teams. The net sees images of the spec's shape.
BenchmarkResult benchmark(const RunConfig& config, const ModelSpec& spec, double seconds);

}  // namespace crossbow
