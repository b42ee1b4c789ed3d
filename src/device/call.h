// One run of a kernel: what it works on, and what changes from step to step.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/batch_format.h"
#include "device/vector_math.h"

namespace crossbow {

/// What changes from step to step: lies in the device's memory, where calls read it when they run,
/// so that a recorded step can be run again. Randomness depends on these numbers only.
struct Step {
  FieldAddresses inputs{};  // the fields of this batch
  uint64_t seed = 0;
  uint32_t epoch = 0;
  uint64_t first_sample = 0;  // position in the epoch of the batch's first row
  UpdateStep update;          // for programs that update (CompileOptions::update)
};

/// Addresses in the order of the node's inputs and outputs; absent optional inputs are null.
struct Operands {
  std::vector<void*> inputs, outputs;
  void* scratch = nullptr;  // 64-byte aligned, PreparedKernel::scratch_bytes long
};

/// One prebuilt kernel run, by a queue. Allocates nothing in our code, locks nothing. The step is
/// in the device's memory: on devices with memory of their own only its address is of use.
using Call = std::function<void(const Step&)>;

}  // namespace crossbow
