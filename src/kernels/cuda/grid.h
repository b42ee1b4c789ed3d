// What a kernel's thread knows of its grid, and how a grid is launched. nvcc compiles our kernels
// for the GPU. The tests' C++ compiler compiles the same files for the host, where the threads of a
// block are fibres (tests/support/fibres.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

#ifdef __CUDACC__
#include "device/cuda/runtime.h"
#define CROSSBOW_GPU __device__
#define CROSSBOW_GRID cuda
#define CROSSBOW_UNROLL _Pragma("unroll")
#else
#define CROSSBOW_GPU
#define CROSSBOW_GRID fibres
#define CROSSBOW_UNROLL
#endif

namespace crossbow::CROSSBOW_GRID {

constexpr int kWarp = 32;
constexpr int kThreads = 256;  // of a block, unless a kernel says otherwise

struct Grid {
  int64_t blocks;
  int threads = kThreads;   // of a block: a multiple of kWarp
  size_t shared_bytes = 0;  // that a block's threads have in common, at first undefined
};

#ifdef __CUDACC__

constexpr const char* kDevice = "cuda";

class Thread {
 public:
  __device__ int64_t block() const { return blockIdx.x; }
  __device__ int64_t blocks() const { return gridDim.x; }
  /// In its block.
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return static_cast<int>(blockDim.x); }

  /// Waits for the block's other threads, all of which must come here.
  __device__ void sync() const { __syncthreads(); }
  /// The value of the thread whose rank differs in these bits, below kWarp. All threads of the
  /// block must come here.
  __device__ float exchange(float value, int bits) const {
    return __shfl_xor_sync(0xffffffff, value, bits);
  }
  template <typename T>
  __device__ T* shared() const {
    extern __shared__ __align__(16) double memory[];
    return reinterpret_cast<T*>(memory);
  }
};

template <typename Kernel>
__global__ void run_kernel(const __grid_constant__ Kernel kernel) {
  kernel(Thread());
}

/// Gives the kernel, a function of a Thread, to the queue whose call this thread makes.
template <typename Kernel>
void launch(const Grid& grid, const Kernel& kernel) {
  run_kernel<<<static_cast<unsigned>(grid.blocks), grid.threads, grid.shared_bytes,
               current_stream()>>>(kernel);
  check(cudaGetLastError(), "launching a kernel");
}

#else

constexpr const char* kDevice = "fibres";

/// See above.
class Thread {
 public:
  int64_t block() const;
  int64_t blocks() const;
  int rank() const;
  int threads() const;
  void sync() const;
  float exchange(float value, int bits) const;
  template <typename T>
  T* shared() const {
    return static_cast<T*>(shared_memory());
  }

 private:
  void* shared_memory() const;
};

void launch_fibres(const Grid& grid, void (*run)(const void* kernel), const void* kernel);

template <typename Kernel>
void launch(const Grid& grid, const Kernel& kernel) {
  launch_fibres(
      grid, [](const void* k) { (*static_cast<const Kernel*>(k))(Thread()); }, &kernel);
}

#endif

}  // namespace crossbow::CROSSBOW_GRID
