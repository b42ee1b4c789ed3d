// The device "cuda" in builds that have no kernels for it.
#include "core/error.h"
#include "device/device.h"

namespace crossbow {
namespace {

constexpr const char* kWhyNone =
    "this build has no GPU kernels; cmake adds them where it finds NVIDIA's CUDA toolkit 12 and "
    "cuDNN 9.8, or later";

const RegisterDevice kNone{
    kGpus, [] { return DeviceKind{.devices = 0, .why_none = kWhyNone}; },
    [](int) -> std::unique_ptr<Device> { fail("there is no GPU: {}", kWhyNone); }};

}  // namespace
}  // namespace crossbow
