#include "device/device.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/registry.h"

namespace crossbow {
namespace {

Registry<RegisterDevice::Make>& registry() {
  static Registry<RegisterDevice::Make> kinds("device");
  return kinds;
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
  const auto* const make = registry().find(kind);
  if (!make) fail("there is no device '{}', and there are no kernels for one", kind);
  const std::lock_guard lock(mutex);
  auto& device = devices[{std::string(kind), index}];
  if (!device) device = (*make)(index);
  return *device;
}

bool is_device(std::string_view kind) {
  return registry().find(kind) != nullptr;
}

RegisterDevice::RegisterDevice(std::string_view kind, Make make) {
  registry().add(kind, make);
}

}  // namespace crossbow
