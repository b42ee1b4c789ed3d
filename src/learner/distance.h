// How far two flat vectors of a device lie apart.
#pragma once

#include "device/device.h"

namespace crossbow {

/// The squared norm of a − b, of n elements each in the device's memory. Returns when it is done;
/// not for use in a step, as it allocates.
double squared_distance(Device& device, DType dtype, const std::byte* a, const std::byte* b,
                        int64_t n);

}  // namespace crossbow
