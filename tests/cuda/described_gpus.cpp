#include "cuda/described_gpus.h"

#include <fmt/format.h>

#include "core/machine.h"
#include "device/cuda/gpu.h"
#include "device/device.h"

namespace crossbow::testing {
namespace {

std::string described(int version, int processors, int shared_bytes, int64_t cache,
                      const char* name) {
  return fmt::format(
      R"({{"cudaDeviceId":0,"deviceVer":{},"driverVer":13000,"isTccDriver":0,"maxCtasPerSM":32,)"
      R"("maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":{},"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
      R"("memClockRateKHz":1500000,"multiProcessorCount":{},"pciDeviceId":0,"regsPerBlock":65536,)"
      R"("reservedSharedMemoryPerBlock":1024,"smClockRateKHz":1500000,"supportCoopLaunch":1,)"
      R"("totalGlobalMem":85899345920,"warpSize":32,"maxGridSize":[2147483647,65535,65535],)"
      R"("maxBlockSize":[1024,1024,64],"l2CacheSize":{},"deviceName":"{}"}})",
      version, shared_bytes, processors, cache, name);
}

/// Its memory is the host's, so that programs find their inputs' addresses.
class Described : public Device, public cuda::Gpu {
 public:
  explicit Described(const DescribedGpu& gpu) : gpu_(gpu) {}

  std::string_view kernels() const override { return "cuda"; }
  bool is_host() const override { return false; }
  bool works_aside() const override { return true; }
  int crowd() const override { return 8; }
  double memory_mb() const override { return crossbow::memory_mb(); }
  double free_memory_mb() const override { return crossbow::free_memory_mb(); }
  Buffer allocate(size_t bytes) override { return Buffer(bytes); }
  std::unique_ptr<Queue> make_queue() override { fail("{} is not there", gpu_.name); }
  std::unique_ptr<Event> make_event() override { fail("{} is not there", gpu_.name); }

  std::string name() const override { return gpu_.name; }
  bool has_clusters() const override { return gpu_.name == "sm_90"; }
  std::optional<int> index() const override { return std::nullopt; }
  cuda::CudnnObject cudnn_properties() const override { return cuda::gpu_properties(gpu_.json); }

 private:
  const DescribedGpu& gpu_;
};

const RegisterDevice kSm80{"sm_80", [] { return DeviceKind{}; },
                           [](int) -> std::unique_ptr<Device> {
                             return std::make_unique<Described>(described_gpus()[0]);
                           }};
const RegisterDevice kSm90{"sm_90", [] { return DeviceKind{}; },
                           [](int) -> std::unique_ptr<Device> {
                             return std::make_unique<Described>(described_gpus()[1]);
                           }};

}  // namespace

const std::vector<DescribedGpu>& described_gpus() {
  static const std::vector<DescribedGpu> gpus{
      {"sm_80", described(800, 108, 166912, 41943040, "NVIDIA A100-SXM4-80GB")},
      {"sm_90", described(900, 132, 232448, 52428800, "NVIDIA H100 80GB HBM3")}};
  return gpus;
}

}  // namespace crossbow::testing
