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
// A small kernel runs its instructions once or twice, and has to fetch them: copies of a loop's
// body must pay.
#define CROSSBOW_ROLLED _Pragma("unroll 1")
#else
#define CROSSBOW_GPU
#define CROSSBOW_GRID fibres
#define CROSSBOW_UNROLL
#define CROSSBOW_ROLLED
#endif

namespace crossbow::CROSSBOW_GRID {

constexpr int kWarp = 32;
constexpr int kThreads = 256;      // of a block, unless a kernel says otherwise
constexpr int kMostThreads = 512;  // for which a multiprocessor has registers

struct Grid {
  int64_t blocks;
  int threads = kThreads;   // of a block: a multiple of kWarp
  size_t shared_bytes = 0;  // that a block's threads have in common, at first undefined
  /// Neighbouring blocks that run at the same time and can read each other's shared memory: 1, 2, 4
  /// or 8, of which `blocks` is a multiple.
  int cluster = 1;
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
#if __CUDA_ARCH__ >= 900
  /// Waits for all threads of the cluster, which must come here.
  __device__ void sync_cluster() const {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
  }
  /// What the cluster's i-th block has at that place of its shared memory.
  template <typename T>
  __device__ T* shared_of(int block, T* mine) const {
    return static_cast<T*>(__cluster_map_shared_rank(mine, static_cast<unsigned>(block)));
  }
  /// After the first of these two no thread of the block reads shared memory of others, and after
  /// the second none of the cluster does. All its threads must come to both.
  __device__ void leave_cluster() const {
    __cluster_barrier_arrive_relaxed();
  }
  __device__ void wait_for_leavers() const {
    __cluster_barrier_wait();
  }
#else  // which has no clusters
  __device__ void sync_cluster() const {}
  template <typename T>
  __device__ T* shared_of(int, T* mine) const {
    return mine;
  }
  __device__ void leave_cluster() const {}
  __device__ void wait_for_leavers() const {}
#endif
};

template <typename Kernel>
__global__ void __launch_bounds__(kMostThreads) run_kernel(const __grid_constant__ Kernel kernel) {
  kernel(Thread());
}

/// Gives the kernel, a function of a Thread, to the queue whose call this thread makes.
template <typename Kernel>
void launch(const Grid& grid, const Kernel& kernel) {
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(grid.blocks);
  config.blockDim = static_cast<unsigned>(grid.threads);
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = current_stream();
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
  config.attrs = &cluster;
  config.numAttrs = grid.cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, run_kernel<Kernel>, kernel), "launching a kernel");
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
    return reinterpret_cast<T*>(shared_memory());
  }
  void sync_cluster() const;
  void leave_cluster() const {}
  void wait_for_leavers() const { sync_cluster(); }
  template <typename T>
  T* shared_of(int block, T* mine) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(mine) + distance_to(block));
  }

 private:
  std::byte* shared_memory() const;
  ptrdiff_t distance_to(int block) const;
};

void launch_fibres(const Grid& grid, void (*run)(const void* kernel), const void* kernel);

template <typename Kernel>
void launch(const Grid& grid, const Kernel& kernel) {
  launch_fibres(
      grid, [](const void* k) { (*static_cast<const Kernel*>(k))(Thread()); }, &kernel);
}

#endif

/// Target::clusters.
bool has_clusters(const Device& device);

}  // namespace crossbow::CROSSBOW_GRID
