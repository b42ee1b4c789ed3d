#include "device/gpus.h"

namespace crossbow {

DeviceKind gpus() {
  if (is_device(kGpus)) return device_kind(kGpus);
  return {.devices = 0,
          .why_none =
              "this build has no GPU kernels; where nvcc 12 or later is in PATH, cmake adds "
              "them"};
}

}  // namespace crossbow
