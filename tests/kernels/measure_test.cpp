// Trials of kernels: by a queue, to its end.
#include "kernels/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

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
  // The first of the made-up values, which the host alone can write.
  for (const auto& [kind, value] : {std::pair{"cpu", -0.75f}, {"late", 0.0f}}) {
    float seen = 1;
    const auto kernel = slow_kernel(std::chrono::milliseconds(3), seen);
    EXPECT_GE(measure(kernel, find_device(kind)), 3e-3) << kind;
    EXPECT_EQ(seen, value) << kind;
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
