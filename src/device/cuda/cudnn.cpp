#include "device/cuda/cudnn.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "device/cuda/library.h"
#include "device/cuda/runtime.h"

namespace crossbow::cuda {
namespace {

constexpr const char* kLibrary = "libcudnn.so.9";
/// Where the build found it.
#ifdef CROSSBOW_CUDNN
constexpr const char* kFound = CROSSBOW_CUDNN;
#else
constexpr const char* kFound = kLibrary;
#endif
constexpr size_t kOldest = 90800;  // the first that chooses for a GPU that is not there

/// "9.19.0" of 91900.
std::string version_text(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// The functions that we call.
class Cudnn {
 public:
  Cudnn() {
    const Library library({"convolutions on GPUs", "cuDNN", "9.8"}, kLibrary, kFound);
    library.load(version, "cudnnGetVersion");
    if (version() < kOldest) library.refuse(version_text(version()));
    library.load(error_string, "cudnnGetErrorString");
    library.load(last_error, "cudnnGetLastErrorString");
    library.load(create_handle, "cudnnCreate");
    library.load(set_stream, "cudnnSetStream");
    library.load(create, "cudnnBackendCreateDescriptor");
    library.load(destroy, "cudnnBackendDestroyDescriptor");
    library.load(set, "cudnnBackendSetAttribute");
    library.load(get, "cudnnBackendGetAttribute");
    library.load(finish, "cudnnBackendFinalize");
    library.load(execute, "cudnnBackendExecute");
  }

  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetLastErrorString) last_error;
  decltype(&cudnnCreate) create_handle;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) create;
  decltype(&cudnnBackendDestroyDescriptor) destroy;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendFinalize) finish;
  decltype(&cudnnBackendExecute) execute;
};

std::atomic<bool> is_loaded{false};

/// Loaded by the first call.
const Cudnn& cudnn() {
  static const Cudnn library;
  is_loaded = true;
  return library;
}

void expect(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char why[512] = {};
  cudnn().last_error(why, sizeof why);
  fail("{}: cuDNN says {} {}", what, cudnn().error_string(status), why);
}

/// Handles that no thread uses, by GPU. They are handed on and never destroyed: that would wait for
/// all work of the GPU, and at the process's end cuDNN may have gone before.
class Handles {
 public:
  cudnnHandle_t take(int gpu) {
    std::vector<cudnnHandle_t>& all = unused_[gpu];
    cudnnHandle_t handle = nullptr;
    if (all.empty()) {
      expect(cudnn().create_handle(&handle), "preparing cuDNN");
    } else {
      handle = all.back();
      all.pop_back();
    }
    return handle;
  }
  void give_back(int gpu, cudnnHandle_t handle) { unused_[gpu].push_back(handle); }

 private:
  std::map<int, std::vector<cudnnHandle_t>> unused_;
};

/// Whose mutex is capture_mutex().
Handles& handles() {
  static auto& all = *new Handles;
  return all;
}

/// A thread's own, by GPU.
class OwnHandles {
 public:
  OwnHandles() = default;
  OwnHandles(const OwnHandles&) = delete;
  ~OwnHandles() {
    const std::lock_guard lock(capture_mutex());
    for (const auto& [gpu, handle] : handles_) handles().give_back(gpu, handle);
  }
  cudnnHandle_t of_current_gpu() {
    int gpu = 0;
    cuda::check(cudaGetDevice(&gpu), "asking for the current GPU");
    const std::lock_guard lock(capture_mutex());
    cudnnHandle_t& handle = handles_[gpu];
    if (!handle) handle = handles().take(gpu);
    return handle;
  }

 private:
  std::map<int, cudnnHandle_t> handles_;
};

cudnnHandle_t handle() {
  thread_local OwnHandles own;
  return own.of_current_gpu();
}

}  // namespace

void make_cudnn_ready() {
  if (is_loaded) handle();
}

CudnnObject::CudnnObject(cudnnBackendDescriptorType_t type) {
  expect(cudnn().create(type, &object_), "describing work for a GPU");
}

CudnnObject::~CudnnObject() {
  if (object_) cudnn().destroy(object_);
}

CudnnObject::CudnnObject(CudnnObject&& other) noexcept
    : object_(std::exchange(other.object_, nullptr)) {}

CudnnObject& CudnnObject::operator=(CudnnObject&& other) noexcept {
  std::swap(object_, other.object_);
  return *this;
}

void CudnnObject::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, const void* values) {
  expect(cudnn().set(object_, name, type, count, values), "describing work for a GPU");
}

bool CudnnObject::is_unsupported_when_finished() {
  const std::lock_guard lock(capture_mutex());
  const cudnnStatus_t status = cudnn().finish(object_);
  // Of the status's thousands, 3 is that of what is not supported.
  if (status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000) return true;
  expect(status, "describing work for a GPU");
  return false;
}

void CudnnObject::finish() {
  const std::lock_guard lock(capture_mutex());
  expect(cudnn().finish(object_), "describing work for a GPU");
}

int64_t CudnnObject::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         size_t most, void* values) const {
  int64_t count = 0;
  expect(cudnn().get(object_, name, type, static_cast<int64_t>(most), &count, values),
         "asking cuDNN");
  return count;
}

std::vector<CudnnObject> CudnnObject::get_objects(cudnnBackendAttributeName_t name,
                                                  cudnnBackendDescriptorType_t type,
                                                  int64_t most) const {
  std::vector<CudnnObject> objects;
  std::vector<cudnnBackendDescriptor_t> pointers;
  for (; most > 0; --most) pointers.push_back(objects.emplace_back(type).object_);
  const int64_t count = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, pointers.size(), pointers.data());
  objects.erase(objects.begin() + std::min(count, std::ssize(objects)), objects.end());
  return objects;
}

void CudnnObject::execute(const CudnnObject& operands) const {
  const std::lock_guard lock(capture_mutex());
  const cudnnHandle_t own = handle();
  expect(cudnn().set_stream(own, current_stream()), "choosing a stream");
  expect(cudnn().execute(own, object_, operands.object_), "giving a GPU work");
}

std::string cudnn_version() {
  return version_text(cudnn().version());
}

CudnnObject gpu_properties(int index) {
  CudnnObject properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, int32_t{index});
  properties.finish();
  return properties;
}

CudnnObject gpu_properties(std::string_view json) {
  CudnnObject properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span(json.data(), json.size()));
  properties.finish();
  return properties;
}

}  // namespace crossbow::cuda
