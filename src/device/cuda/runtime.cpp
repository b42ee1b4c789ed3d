#include "device/cuda/runtime.h"

#include "core/error.h"

namespace crossbow::cuda {
namespace {

thread_local cudaStream_t stream = nullptr;
thread_local int device = -1;

}  // namespace

void check(cudaError_t result, std::string_view what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // which another call would report again
  fail("{}: {}", what, cudaGetErrorString(result));
}

std::recursive_mutex& capture_mutex() {
  static auto& mutex = *new std::recursive_mutex;  // threads may end after static objects
  return mutex;
}

cudaStream_t current_stream() {
  return stream;
}

void use_device(int index) {
  if (index == device) return;
  check(cudaSetDevice(index), "choosing a GPU");
  device = index;
}

UseStream::UseStream(int index, cudaStream_t used) : before_(stream) {
  use_device(index);
  stream = used;
}

UseStream::~UseStream() {
  stream = before_;
}

}  // namespace crossbow::cuda
