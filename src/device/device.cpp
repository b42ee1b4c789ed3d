#include "device/device.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/registry.h"

namespace crossbow {
namespace {

struct Entry {
  RegisterDevice::Describe describe;
  RegisterDevice::Make make;
};

Registry<Entry>& registry() {
  static Registry<Entry> kinds("device");
  return kinds;
}

const Entry& find(std::string_view kind) {
  const auto* const entry = registry().find(kind);
  if (!entry) fail("there is no device '{}', and there are no kernels for one", kind);
  return *entry;
}

}  // namespace

void Queue::drain() noexcept {
  try {
    finish();
  } catch (...) {
    // Whoever used the queue has heard of it, or will.
  }
}

Buffer Device::allocate_zeroed(size_t bytes) {
  Buffer buffer = allocate(bytes);
  zero_now(buffer.data(), bytes);
  return buffer;
}

void Device::zero_now(void* to, size_t bytes) {
  const auto queue = make_queue();
  queue->zero(to, bytes);
  queue->finish();
}

void Device::copy_now(void* to, const void* from, size_t bytes) {
  const auto queue = make_queue();
  queue->copy(to, from, bytes);
  queue->finish();
}

Device& find_device(std::string_view kind, int index) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, std::unique_ptr<Device>> devices;
  const Entry& entry = find(kind);
  const std::lock_guard lock(mutex);
  auto& device = devices[{std::string(kind), index}];
  if (!device) device = entry.make(index);
  return *device;
}

bool is_device(std::string_view kind) {
  return registry().find(kind) != nullptr;
}

bool is_missing(std::string_view kind) {
  return is_device(kind) && device_kind(kind).devices == 0;
}

DeviceKind device_kind(std::string_view kind) {
  return find(kind).describe();
}

RegisterDevice::RegisterDevice(std::string_view kind, Describe describe, Make make) {
  registry().add(kind, {describe, make});
}

}  // namespace crossbow
