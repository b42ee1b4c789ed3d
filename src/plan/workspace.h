// What a worker runs programs with.
#pragma once

#include <array>

#include "device/device.h"

namespace crossbow {

/// A queue, and the memory that the programs it runs one after the other share: an arena, the step
/// block, and a batch that the device cannot read where it is. Used by one thread at a time.
class Workspace {
 public:
  Workspace(Device& device, size_t arena_bytes, const FieldBytes& largest_inputs);
  /// Of the device's memory, for such a workspace.
  static size_t bytes(const Device& device, size_t arena_bytes, const FieldBytes& largest_inputs);
  /// Whether it has room for programs of that arena and those inputs.
  bool holds(size_t arena_bytes, const FieldBytes& inputs) const;

  Queue& queue() const { return *queue_; }
  const Buffer& arena() const { return arena_; }
  /// The device's, to be passed on to calls.
  const Step& step() const { return *step_.as<const Step>(); }

  /// For the programs run from now on. `step.inputs` are the host's, and stay as they are until the
  /// queue has done what it was given.
  void set(const Step& step, const FieldBytes& inputs) const;

 private:
  const Device* device_;
  std::unique_ptr<Queue> queue_;
  Buffer arena_, step_;
  std::array<Buffer, kFields> inputs_;
};

}  // namespace crossbow
