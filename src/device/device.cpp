#include "device/device.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"

namespace crossbow {
namespace {

struct Kind {
  RegisterDevice::Make make;
  std::map<int, std::unique_ptr<Device>> devices;
};

std::map<std::string, Kind, std::less<>>& kinds() {
  static std::map<std::string, Kind, std::less<>> map;
  return map;
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
  const auto queue = make_queue();
  queue->zero(buffer.data(), bytes);
  queue->finish();
  return buffer;
}

void Device::copy_now(void* to, const void* from, size_t bytes) {
  const auto queue = make_queue();
  queue->copy(to, from, bytes);
  queue->finish();
}

Device& find_device(std::string_view kind, int index) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto it = kinds().find(kind);
  if (it == kinds().end()) fail("there is no device '{}', and there are no kernels for one", kind);
  auto& made = it->second.devices[index];
  if (!made) made = it->second.make(index);
  return *made;
}

bool is_device(std::string_view kind) {
  return kinds().count(kind) > 0;
}

RegisterDevice::RegisterDevice(std::string_view kind, Make make) {
  if (!kinds().try_emplace(std::string(kind), Kind{make, {}}).second) {
    fail("the device '{}' is registered twice", kind);
  }
}

}  // namespace crossbow
