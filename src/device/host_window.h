// The host's look at a device's memory.
#pragma once

#include "device/device.h"

namespace crossbow {

/// A stretch of a device's memory for the host to read: where it is, if the host can, else a copy.
class HostWindow {
 public:
  HostWindow(Device& device, const std::byte* from, size_t bytes) : data_(from) {
    if (device.is_host()) return;
    copy_ = device.allocate_pinned(bytes);
    device.copy_now(copy_.data(), from, bytes);
    data_ = copy_.data();
  }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  Buffer copy_;
};

/// The same for writing: `commit` brings to the device what was written.
class HostDraft {
 public:
  HostDraft(Device& device, std::byte* to, size_t bytes) : device_(device), to_(to) {
    if (!device.is_host()) copy_ = device.allocate_pinned(bytes);
  }
  std::byte* data() const { return copy_.data() ? copy_.data() : to_; }
  void commit() const {
    if (copy_.data()) device_.copy_now(to_, copy_.data(), copy_.size());
  }

 private:
  Device& device_;
  std::byte* const to_;
  Buffer copy_;
};

}  // namespace crossbow
