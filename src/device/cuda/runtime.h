// The CUDA runtime, as our sources use it.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <string_view>

namespace crossbow::cuda {

/// Throws Error: "what: CUDA's reason".
void check(cudaError_t result, std::string_view what);

/// What this thread asks of CUDA concerns this GPU from now on.
void use_device(int index);

/// Of the queue whose call this thread makes; while there is none, CUDA's default.
cudaStream_t current_stream();

/// Held while a stream is recorded, and by whoever calls cuDNN or cuBLASLt: what they make ready
/// may wait for the whole GPU, which ends a recording under way, and its plans are not for several
/// threads at a time.
std::recursive_mutex& capture_mutex();

/// Makes it the current one, of that GPU, while it lives.
class UseStream {
 public:
  UseStream(int device, cudaStream_t stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;

 private:
  const cudaStream_t before_;
};

}  // namespace crossbow::cuda
