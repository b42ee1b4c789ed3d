// The device of the tests OnGpu*.
#pragma once

#include <string>

#include "device/device.h"

namespace crossbow::testing {

inline bool has_gpu() {
  return !is_missing(kGpus);
}

/// The first GPU; elsewhere a late device with a GPU's kernels, which tries the tests.
inline std::string gpu() {
  return has_gpu() ? std::string(kGpus) : "late-gpu";
}

}  // namespace crossbow::testing
