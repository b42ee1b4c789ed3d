#include "plan/workspace.h"

namespace crossbow {

Workspace::Workspace(Device& device, size_t arena_bytes, const FieldBytes& largest_inputs)
    : device_(&device),
      queue_(device.make_queue()),
      arena_(device.allocate(arena_bytes)),
      step_(device.allocate(sizeof(Step))) {
  for (size_t i = 0; i < inputs_.size() && !device.is_host(); ++i) {
    inputs_[i] = device.allocate(largest_inputs[i]);
  }
}

size_t Workspace::bytes(const Device& device, size_t arena_bytes,
                        const FieldBytes& largest_inputs) {
  size_t bytes = arena_bytes + sizeof(Step);
  for (const size_t input : largest_inputs) bytes += device.is_host() ? 0 : input;
  return bytes;
}

bool Workspace::holds(size_t arena_bytes, const FieldBytes& inputs) const {
  bool holds = arena_bytes <= arena_.size();
  for (size_t i = 0; i < inputs_.size() && !device_->is_host(); ++i) {
    holds = holds && inputs[i] <= inputs_[i].size();
  }
  return holds;
}

void Workspace::set(const Step& step, const FieldBytes& inputs) const {
  if (device_->is_host()) return queue_->write(step_.data(), &step, sizeof step);
  Step on_device = step;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const void*& input = on_device.inputs[i];
    if (inputs[i] == 0) input = nullptr;
    if (!input || device_->can_read(input)) continue;
    queue_->copy(inputs_[i].data(), input, inputs[i]);
    input = inputs_[i].data();
  }
  queue_->write(step_.data(), &on_device, sizeof on_device);
}

}  // namespace crossbow
