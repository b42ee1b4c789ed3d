// Owned, aligned memory of the host or of a device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace crossbow {

/// Page-aligned, freed with the object; movable. `data()` is null when empty. What a device hands
/// out is at addresses for its queues alone, and must be freed before the device.
class Buffer {
 public:
  using Free = std::function<void(std::byte*)>;

  Buffer() = default;
  /// Of the host, zeroed.
  explicit Buffer(size_t bytes);
  Buffer(std::byte* data, size_t bytes, Free free) : data_(data, std::move(free)), size_(bytes) {}

  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace crossbow
