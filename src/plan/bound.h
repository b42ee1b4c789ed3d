// How fast a training step could be on this machine: what `bench` compares the measured step with.
#pragma once

#include "plan/program.h"

namespace crossbow {

/// Seconds that one step cannot be shorter than, by part.
struct Bound {
  double library = 0;       // oneDNN's kernels, each run alone in warm memory: the least of several
  double element_wise = 0;  // bytes that our loops must move, each operand once, over bandwidth
  double update = 0;        // bytes of the optimiser's pass over bandwidth
  double bandwidth = 0;     // bytes/s of a copy whose working set is the arena

  double seconds() const { return library + element_wise + update; }
};

/// Takes a second or so. Call with the OpenMP width set to the program's threads.
Bound measure_bound(const Program& program);

}  // namespace crossbow
