// The device of the tests OnGpu*.
#pragma once

#include <string>

#include "device/gpus.h"

namespace crossbow::testing {

inline bool has_gpu() {
  return gpus().devices > 0;
}

/// The first GPU; elsewhere a late device with a GPU's kernels, which tries the tests.
inline std::string gpu() {
  return has_gpu() ? std::string(kGpus) : "late-gpu";
}

}  // namespace crossbow::testing
