#include "train/batch_buffers.h"

namespace crossbow {

data::PipelineOptions with_memory_for(Device& device, data::PipelineOptions options) {
  if (device.is_host()) return options;  // its programs read a batch where it is
  options.allocate = [&device](size_t bytes) {
    const auto memory = std::make_shared<const Buffer>(device.allocate_pinned(bytes));
    return std::shared_ptr<std::byte>(memory, memory->data());
  };
  return options;
}

}  // namespace crossbow
