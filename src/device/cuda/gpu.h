// Which GPU a device is.
#pragma once

#include <string>

#include "device/device.h"

namespace crossbow::cuda {

/// The index that CUDA has given it; the device is of kind cuda.
int gpu_of(const Device& device);
/// By which choices are remembered: its name and its driver's version.
std::string gpu_name(int index);

}  // namespace crossbow::cuda
