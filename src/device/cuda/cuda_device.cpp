// NVIDIA GPUs: a queue is a stream, a recording a CUDA graph.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/gpu.h"
#include "device/cuda/runtime.h"
#include "device/cuda/write.h"
#include "device/device.h"

namespace crossbow::cuda {
namespace {

constexpr std::string_view kKernels = kGpus;
/// Vector math that takes the numbers of an update from the host.
constexpr std::string_view kQueueMath = "cuda queue";

class CudaEvent : public Event {
 public:
  explicit CudaEvent(int device) {
    use_device(device);
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;

  void finish() const override { check(cudaEventSynchronize(event_), "work of a GPU"); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaRecording : public Recording {
 public:
  /// Null if the GPU has no memory left for it. Destroys `graph`.
  static std::unique_ptr<const CudaRecording> of(int device, cudaStream_t stream,
                                                 cudaGraph_t graph) {
    cudaGraphExec_t executable = nullptr;
    const cudaError_t result = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    if (result == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // of no consequence for calls to come
      return nullptr;
    }
    check(result, "making a CUDA graph");
    return std::make_unique<CudaRecording>(device, stream, executable);
  }
  CudaRecording(int device, cudaStream_t stream, cudaGraphExec_t graph)
      : device_(device), stream_(stream), graph_(graph) {}
  ~CudaRecording() override { cudaGraphExecDestroy(graph_); }
  CudaRecording(const CudaRecording&) = delete;

  void replay() const override {
    use_device(device_);
    check(cudaGraphLaunch(graph_, stream_), "giving a GPU a CUDA graph");
  }

 private:
  const int device_;
  const cudaStream_t stream_;
  const cudaGraphExec_t graph_;
};

/// Gives its calls to a stream.
class QueueMath : public VectorMath {
 public:
  /// `stream`: the one that its queue gives work to, now or aside.
  QueueMath(int device, const cudaStream_t& stream, const VectorMath& math)
      : device_(device), stream_(stream), math_(math) {}

  void update(const UpdateRule& rule, const UpdateStep& step, const UpdateSpans& spans,
              int64_t n) const override {
    const UseStream use(device_, stream_);
    math_.update(rule, step, spans, n);
  }
  void combine(std::span<const double> factors, std::span<const void* const> terms, void* out,
               int64_t n) const override {
    const UseStream use(device_, stream_);
    math_.combine(factors, terms, out, n);
  }
  void squared_norm(const void* x, int64_t n, double* sum) const override {
    const UseStream use(device_, stream_);
    math_.squared_norm(x, n, sum);
  }
  void find_clip_scale(double limit, const double* sums, int64_t count,
                       double* scale) const override {
    const UseStream use(device_, stream_);
    math_.find_clip_scale(limit, sums, count, scale);
  }

 private:
  const int device_;
  const cudaStream_t& stream_;
  const VectorMath& math_;
};

class CudaQueue : public Queue {
 public:
  CudaQueue(int device, bool urgent) : device_(device) {
    use_device(device_);
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    priority_ = urgent ? greatest : least;
    make_stream(stream_);
  }
  ~CudaQueue() override {
    if (beside_) cudaStreamDestroy(beside_);
    cudaStreamDestroy(stream_);
  }
  CudaQueue(const CudaQueue&) = delete;

  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    use_device(device_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying by a GPU");
  }
  void write(void* to, const void* from, size_t bytes) override {
    use_device(device_);
    cuda::write(to, from, bytes, stream_);
  }
  void fetch(void* to, const void* from, size_t bytes) override {
    use_device(device_);
    copy_words(to, from, bytes, stream_);
  }
  void zero(void* to, size_t bytes) override {
    if (bytes == 0) return;
    use_device(device_);
    check(cudaMemsetAsync(to, 0, bytes, stream_), "zeroing memory of a GPU");
  }
  void aside(const std::function<void()>& give) override {
    use_device(device_);
    make_beside();
    mark(*begin_, stream_);
    wait(*begin_, beside_);
    const Swapped swapped(stream_, beside_);
    give();
    mark(*ends_[ended_++ % ends_.size()], stream_);
  }
  void join(int but) override {
    const size_t wanted = ended_ - std::min(ended_ - joined_, static_cast<size_t>(but));
    if (wanted == joined_) return;
    use_device(device_);
    wait(*ends_[(wanted - 1) % ends_.size()], stream_);
    joined_ = wanted;
  }
  void mark(Event& event) override {
    use_device(device_);
    join(0);
    mark(event, stream_);
  }
  void wait(const Event& event) override {
    use_device(device_);
    wait(event, stream_);
  }
  void finish() override {
    if (beside_) check(cudaStreamSynchronize(beside_), "work of a GPU");
    check(cudaStreamSynchronize(stream_), "work of a GPU");
  }

  Call bind(const std::function<Call(Operands)>& kernel, Operands operands) override {
    return [this, call = kernel(std::move(operands))](const Step& step) {
      const UseStream use(device_, stream_);
      call(step);
    };
  }
  const VectorMath& math(DType dtype) override {
    const std::lock_guard lock(mutex_);
    auto& math = math_[dtype];
    if (!math) {
      math = std::make_unique<QueueMath>(device_, stream_, vector_math(kQueueMath, dtype));
    }
    return *math;
  }
  std::unique_ptr<const Recording> record(const std::function<void()>& give) override {
    const char* const graphs = std::getenv("CROSSBOW_CUDA_GRAPHS");
    if (graphs && graphs == std::string_view("0")) return nullptr;
    use_device(device_);
    make_cudnn_ready();
    const std::lock_guard lock(capture_mutex());
    for (int tries = 0; tries < kTries; ++tries) {
      if (cudaGraph_t const graph = capture(give)) {
        return CudaRecording::of(device_, stream_, graph);
      }
    }
    return nullptr;
  }

 private:
  static constexpr int kTries = 3;

  /// While it lives.
  struct Swapped {
    Swapped(cudaStream_t& a, cudaStream_t& b) : a(a), b(b) { std::swap(a, b); }
    ~Swapped() { std::swap(a, b); }
    cudaStream_t &a, &b;
  };

  void make_stream(cudaStream_t& stream) const {
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority_),
          "making a stream");
  }
  void make_beside() {
    if (beside_) return;
    begin_ = std::make_unique<CudaEvent>(device_);
    ends_.clear();
    for (int i = 0; i <= kMostAside; ++i) ends_.push_back(std::make_unique<CudaEvent>(device_));
    make_stream(beside_);  // last: with it all is there
  }
  static void mark(Event& event, cudaStream_t stream) {
    check(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream), "marking a stream");
  }
  static void wait(const Event& event, cudaStream_t stream) {
    check(cudaStreamWaitEvent(stream, static_cast<const CudaEvent&>(event).get(), 0),
          "waiting for another stream");
  }

  /// Null if something else that the process did has ended it.
  cudaGraph_t capture(const std::function<void()>& give) {
    join(0);
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a stream");
    cudaGraph_t graph = nullptr;
    std::exception_ptr error;
    try {
      give();
    } catch (...) {
      error = std::current_exception();
    }
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    joined_ = ended_;  // in the graph; and without one there is nothing to wait for
    if (ended != cudaSuccess) cudaGetLastError();  // which another call would report again
    if (ended == cudaErrorStreamCaptureInvalidated) return nullptr;
    if (error) {
      if (graph) cudaGraphDestroy(graph);
      std::rethrow_exception(error);
    }
    check(ended, "recording a stream");
    return graph;
  }

  const int device_;
  int priority_ = 0;
  cudaStream_t stream_ = nullptr, beside_ = nullptr;  // the second for what is given aside
  std::unique_ptr<CudaEvent> begin_;                  // of that
  std::vector<std::unique_ptr<CudaEvent>> ends_;      // of its last pieces, the i-th modulo size()
  size_t ended_ = 0, joined_ = 0;                     // how many; for how many `stream_` waits
  std::mutex mutex_;
  std::map<DType, std::unique_ptr<QueueMath>> math_;
};

/// "13.0" of 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

class CudaDevice : public Device, public Gpu {
 public:
  explicit CudaDevice(int index) : index_(index) {
    cudaDeviceProp of;
    check(cudaGetDeviceProperties(&of, index), "asking a GPU for its properties");
    if (const std::string why = why_too_old(of.major); !why.empty()) {
      fail("GPU {}, {}, has compute capability {}.{}: {}", index, of.name, of.major, of.minor, why);
    }
    int clusters = 0;
    check(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, index), "asking a GPU");
    has_clusters_ = clusters != 0;
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "asking for the driver's version");
    name_ = fmt::format("{}, driver for CUDA {}", of.name, version_text(driver));
    use_device(index);
    // A learner's thread that waits leaves its core to those that give work.
    check(cudaSetDeviceFlags(cudaDeviceScheduleYield), "preparing a GPU");
  }

  std::string name() const override { return name_; }
  std::optional<int> index() const override { return index_; }
  CudnnObject cudnn_properties() const override { return gpu_properties(index_); }
  bool has_clusters() const override { return has_clusters_; }
  std::string_view kernels() const override { return kKernels; }
  bool is_host() const override { return false; }
  bool works_aside() const override { return true; }
  int crowd() const override { return 8; }
  double memory_mb() const override { return mebibytes(static_cast<double>(memory().total)); }
  double free_memory_mb() const override { return mebibytes(static_cast<double>(memory().free)); }
  Buffer allocate(size_t bytes) override {
    if (bytes == 0) return {};
    use_device(index_);
    void* data = nullptr;
    const cudaError_t result = cudaMalloc(&data, bytes);
    if (result == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // of no consequence for calls to come
      fail(
          "GPU {} has no {:.0f} MiB left: {:.0f} MiB of {:.0f} are free; use fewer learners or a "
          "smaller batch",
          index_, mebibytes(static_cast<double>(bytes)), free_memory_mb(), memory_mb());
    }
    check(result, "allocating memory of a GPU");
    return {static_cast<std::byte*>(data), bytes, [](std::byte* p) { cudaFree(p); }};
  }
  Buffer allocate_pinned(size_t bytes) override {
    if (bytes == 0) return {};
    use_device(index_);
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "pinning memory of the host");
    std::memset(data, 0, bytes);
    return {static_cast<std::byte*>(data), bytes, [](std::byte* p) { cudaFreeHost(p); }};
  }
  bool can_read(const void* host) const override {
    cudaPointerAttributes of{};
    check(cudaPointerGetAttributes(&of, host), "asking for an address");
    return of.type == cudaMemoryTypeHost && of.devicePointer == host;
  }
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<CudaQueue>(index_, false);
  }
  std::unique_ptr<Queue> make_urgent_queue() override {
    return std::make_unique<CudaQueue>(index_, true);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(index_); }

 private:
  struct Memory {
    size_t free = 0, total = 0;
  };
  Memory memory() const {
    use_device(index_);
    Memory memory;
    check(cudaMemGetInfo(&memory.free, &memory.total), "asking a GPU for its memory");
    return memory;
  }

  const int index_;
  bool has_clusters_ = false;
  std::string name_;
};

/// That the GPUs cannot be used; empty if they can.
std::string why_unusable(cudaError_t counted) {
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "no NVIDIA driver is loaded";
  }
  cudaRuntimeGetVersion(&runtime);
  if (counted == cudaErrorInsufficientDriver) {
    return fmt::format(
        "the NVIDIA driver is made for CUDA {}, and this build needs {}: install driver 580 or "
        "later",
        version_text(driver), version_text(runtime));
  }
  if (counted == cudaSuccess) return "";
  return fmt::format("CUDA says '{}'; nvidia-smi shows whether the driver works",
                     cudaGetErrorString(counted));
}

DeviceKind gpus() {
  // Streams that work side by side; CUDA reads it at its first call.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  DeviceKind kind{.devices = 0};
  const cudaError_t counted = cudaGetDeviceCount(&kind.devices);
  kind.why_none = why_unusable(counted);
  if (!kind.why_none.empty()) kind.devices = 0;
  for (int i = 0; i < kind.devices; ++i) {
    cudaDeviceProp of;
    check(cudaGetDeviceProperties(&of, i), "asking a GPU for its name");
    kind.types.push_back(fmt::format("{}, compute capability {}.{}", of.name, of.major, of.minor));
    const std::string why = why_too_old(of.major);
    kind.names.push_back(fmt::format("{}, {:.0f} MiB{}{}", kind.types.back(),
                                     mebibytes(static_cast<double>(of.totalGlobalMem)),
                                     why.empty() ? "" : ": ", why));
  }
  return kind;
}

const RegisterDevice kCuda{kKernels, gpus, [](int index) -> std::unique_ptr<Device> {
                             return std::make_unique<CudaDevice>(index);
                           }};

}  // namespace

std::string why_too_old(int major) {
  constexpr int kOldest = 8;  // cmake/cuda.cmake compiles for it and for later ones
  return major >= kOldest ? "" : fmt::format("this build's kernels need {}.0 or later", kOldest);
}

bool has_clusters(const Device& device) {
  return dynamic_cast<const Gpu&>(device).has_clusters();
}

}  // namespace crossbow::cuda
