// The devices whose memory is the host's and whose work is done at the call: the CPU, and the
// reference.
#pragma once

#include <memory>
#include <string_view>

#include "device/device.h"

namespace crossbow {

/// With the kernels and the vector math of that name, which must live as long as the device;
/// `exchange_piece` as Device::exchange_piece.
std::unique_ptr<Device> make_host_device(std::string_view kernels, int64_t exchange_piece);

}  // namespace crossbow
