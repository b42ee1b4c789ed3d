// Owned, aligned memory. CPU memory for now; a device hands it out so that others can differ.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

namespace crossbow {

/// Page-aligned, zeroed when made, freed with the object; movable. `data()` is null when empty.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);

  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace crossbow
