#include <cstdlib>
#include <cstring>

#include "fuzz/target.h"
#include "train/safetensors.h"

FUZZ_TARGET(safetensors, bytes) {
  const crossbow::FileBytes file{static_cast<int64_t>(bytes.size()),
                                 [&](int64_t offset, std::span<uint8_t> part) {
                                   const auto first = static_cast<size_t>(offset);
                                   if (first + part.size() > bytes.size()) std::abort();
                                   if (part.empty()) return;
                                   std::memcpy(part.data(), bytes.data() + first, part.size());
                                 }};
  const crossbow::SafeTensors tensors(file);
  for (const auto& t : tensors.tensors()) {
    if (tensors.find(t.name) == nullptr) std::abort();
    try {
      tensors.values(t);
    } catch (const crossbow::Error&) {
    }
  }
}
