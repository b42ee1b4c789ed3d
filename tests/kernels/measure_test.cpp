// Trials of kernels: by a queue, to its end.
#include "kernels/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/error.h"
#include "support/late_device.h"

namespace crossbow::testing {
namespace {

/// Takes a while, and reads its input as kernels do.
PreparedKernel slow_kernel(std::chrono::milliseconds time, float& seen) {
  PreparedKernel kernel;
  kernel.inputs = {Layout::plain({4}, DType::f32)};
  kernel.outputs = {Layout::plain({4}, DType::f32)};
  kernel.bind = [time, &seen](const Operands& operands) -> Call {
    return [time, &seen, from = static_cast<const float*>(operands.inputs[0]),
            to = static_cast<float*>(operands.outputs[0])](const Step&) {
      std::this_thread::sleep_for(time);
      to[0] = seen = from[0];
    };
  };
  return kernel;
}

TEST(Measure, WaitsForTheWorkOfAnyDevice) {
  for (const char* kind : {"cpu", "late"}) {
    float seen = 0;
    const auto kernel = slow_kernel(std::chrono::milliseconds(3), seen);
    EXPECT_GE(measure(kernel, find_device(kind)), 3e-3) << kind;
    EXPECT_EQ(seen, -0.75f) << kind;  // the first of the made-up values
  }
}

TEST(Measure, PassesOnWhatAKernelFailsWith) {
  const WithLateOptions options({.failing_work = 2});
  float seen = 0;
  EXPECT_THROW(measure(slow_kernel(std::chrono::milliseconds(0), seen), find_device("late")),
               Error);
}

}  // namespace
}  // namespace crossbow::testing
