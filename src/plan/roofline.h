// How fast a training step could be on this machine: what `bench` compares the measured step with.
#pragma once

#include "plan/program.h"

namespace crossbow {

/// Seconds that one step cannot be shorter than, by part.
struct Roofline {
  double library =
      0;  // products and library kernels, each alone in warm memory, the least of several
  double element_wise =
      0;                 // bytes that our other loops must move, each operand once, over bandwidth
  double update = 0;     // bytes of the optimizer's pass, over that of memory as large as it needs
  double bandwidth = 0;  // bytes/s of a copy within as much memory as the arena

  double seconds() const { return library + element_wise + update; }
};

/// What a step's update must move, in passes over arrays as large as the parameters. As it stands,
/// with one slot: read weights, gradient and slot, write weights and slot. Kernels of gradients
/// that update read no gradient, which measure_roofline takes off.
struct UpdateTraffic {
  double accesses = 5;
  double arrays = 3;  // how many lie in memory
};

/// Takes a second or so. Call with the OpenMP width set to the program's threads.
Roofline measure_roofline(const Program& program, const UpdateTraffic& traffic, Device& device);

}  // namespace crossbow
