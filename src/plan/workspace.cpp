#include "plan/workspace.h"

namespace crossbow {

Workspace::Workspace(Device& device, size_t arena_bytes, const FieldBytes& largest_inputs)
    : host_(device.is_host()),
      queue_(device.make_queue()),
      arena_(device.allocate(arena_bytes)),
      step_(device.allocate(sizeof(Step))) {
  for (size_t i = 0; i < inputs_.size() && !host_; ++i) {
    inputs_[i] = device.allocate(largest_inputs[i]);
  }
}

size_t Workspace::bytes(const Device& device, size_t arena_bytes,
                        const FieldBytes& largest_inputs) {
  size_t bytes = arena_bytes + sizeof(Step);
  for (const size_t input : largest_inputs) bytes += device.is_host() ? 0 : input;
  return bytes;
}

void Workspace::set(const Step& step, const FieldBytes& inputs) const {
  if (host_) {
    queue_->write(step_.data(), &step, sizeof step);
    return;
  }
  Step on_device = step;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs[i] > 0) queue_->copy(inputs_[i].data(), step.inputs[i], inputs[i]);
    on_device.inputs[i] = inputs_[i].data();
  }
  queue_->write(step_.data(), &on_device, sizeof on_device);
}

}  // namespace crossbow
