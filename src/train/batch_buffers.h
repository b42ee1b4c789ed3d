// Buffers of batches in memory that suits a device.
#pragma once

#include "data/pipeline.h"
#include "device/device.h"

namespace crossbow {

/// The options, with buffers that the device reads where they are. The device must outlive them.
data::PipelineOptions with_memory_for(Device& device, data::PipelineOptions options);

}  // namespace crossbow
