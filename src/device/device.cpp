#include "device/device.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/number.h"
#include "core/registry.h"
#include "core/text.h"

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

/// "cuda:2".
struct KindName {
  explicit KindName(std::string_view text) : base(text.substr(0, text.find(':'))) {
    if (base.size() == text.size()) return;
    const auto number = number_of<int>(text.substr(base.size() + 1));
    valid = number && *number >= 0;
    first = number.value_or(0);
  }

  std::string_view base;
  int first = 0;
  bool valid = true;
};

const Entry& find(const KindName& kind) {
  const auto* const entry = registry().find(kind.base);
  if (!entry) fail("there is no device '{}', and there are no kernels for one", kind.base);
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
  const KindName name(kind);
  const Entry& entry = find(name);
  index += name.first;
  const std::lock_guard lock(mutex);
  auto& device = devices[{std::string(name.base), index}];
  if (!device) device = entry.make(index);
  return *device;
}

std::vector<Device*> find_devices(std::string_view kind, int count) {
  std::vector<Device*> devices;
  for (int d = 0; d < count; ++d) devices.push_back(&find_device(kind, d));
  return devices;
}

std::string device_name(std::string_view kind, int index) {
  const KindName name(kind);
  return fmt::format("{}:{}", name.base, name.first + index);
}

bool is_device(std::string_view kind) {
  const KindName name(kind);
  return name.valid && registry().find(name.base) != nullptr;
}

bool is_gpu(std::string_view kind) {
  return KindName(kind).base == kGpus;
}

bool is_missing(std::string_view kind) {
  return is_device(kind) && device_kind(kind).devices == 0;
}

DeviceKind device_kind(std::string_view kind) {
  const KindName name(kind);
  DeviceKind all = find(name).describe();
  if (name.first == 0) return all;
  if (name.first >= all.devices && all.devices > 0) {
    all.why_none = fmt::format("this process may use {} of kind {}, counted from 0",
                               count(all.devices, "device"), name.base);
  }
  const int left_out = std::min(name.first, all.devices);
  all.devices -= left_out;
  for (std::vector<std::string>* of_each : {&all.names, &all.types}) {
    of_each->erase(of_each->begin(),
                   of_each->begin() + std::min<ptrdiff_t>(left_out, std::ssize(*of_each)));
  }
  return all;
}

RegisterDevice::RegisterDevice(std::string_view kind, Describe describe, Make make) {
  registry().add(kind, {describe, make});
}

}  // namespace crossbow
