#include "device/cuda/write.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "device/cuda/runtime.h"

namespace crossbow::cuda {
namespace {

struct Words {
  static constexpr size_t kMost = 256;
  uint32_t* to;
  uint32_t count;
  uint32_t words[kMost];
};

__global__ void write_words(const __grid_constant__ Words words) {
  if (threadIdx.x < words.count) words.to[threadIdx.x] = words.words[threadIdx.x];
}

__global__ void copy(uint32_t* to, const uint32_t* from, uint32_t count) {
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

}  // namespace

void write(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  for (size_t done = 0; done < bytes / sizeof(uint32_t); done += Words::kMost) {
    Words words;
    words.to = static_cast<uint32_t*>(to) + done;
    words.count = static_cast<uint32_t>(std::min(Words::kMost, bytes / sizeof(uint32_t) - done));
    std::memcpy(words.words, static_cast<const uint32_t*>(from) + done,
                words.count * sizeof(uint32_t));
    write_words<<<1, Words::kMost, 0, stream>>>(words);
    check(cudaGetLastError(), "writing to a GPU");
  }
}

void copy_words(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  copy<<<1, 32, 0, stream>>>(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from),
                             static_cast<uint32_t>(bytes / sizeof(uint32_t)));
  check(cudaGetLastError(), "fetching from a GPU");
}

}  // namespace crossbow::cuda
