#include "device/buffer.h"

#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace crossbow {

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  constexpr size_t kPage = 4096;
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  data_ = {static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)), std::free};
  if (!data_) {
    fail("out of memory: {:.1f} MiB could not be had; try a smaller batch or model",
         static_cast<double>(bytes) / (1 << 20));
  }
  std::memset(data_.get(), 0, rounded);
}

}  // namespace crossbow
