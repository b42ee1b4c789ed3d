// What this machine has of the device "cuda".
#pragma once

#include "device/device.h"

namespace crossbow {

inline constexpr std::string_view kGpus = "cuda";

/// None, with the reason, also in builds that have no kernels for them.
DeviceKind gpus();

}  // namespace crossbow
