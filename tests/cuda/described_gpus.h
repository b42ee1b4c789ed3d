// GPUs that are not there: cuDNN chooses for them by their properties.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "device/cuda/cudnn.h"

namespace crossbow::testing {

struct DescribedGpu {
  std::string name;  // also of a device, whose programs can be compiled and not run
  std::string json;  // what cuDNN 9.8 and later ask for
};

const std::vector<DescribedGpu>& described_gpus();

inline void PrintTo(const DescribedGpu& gpu, std::ostream* out) {
  *out << gpu.name;
}

inline std::string gpu_name(const ::testing::TestParamInfo<DescribedGpu>& info) {
  return info.param.name;
}

/// Skipped where cuDNN cannot be loaded.
class OnDescribedGpus : public ::testing::TestWithParam<DescribedGpu> {
 protected:
  void SetUp() override {
    try {
      cuda::cudnn_version();
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

}  // namespace crossbow::testing
