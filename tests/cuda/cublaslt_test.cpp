// What a GPU computes by cuBLASLt is tested there: OnGpuKernels.
#include "device/cuda/cublaslt.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/gpu.h"

namespace crossbow::cuda {
namespace {

const MatrixProduct kProduct{16, 8, 32, true, false, DType::f32, false, CUBLASLT_EPILOGUE_BIAS};

TEST(CublasLt, SaysWhyThereAreNoPlansWithoutAGpu) {
  if (testing::has_gpu()) GTEST_SKIP() << "there is one";
  try {
    cublaslt_version();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  EXPECT_THROW(matrix_plans(kProduct, 0), Error);
}

}  // namespace
}  // namespace crossbow::cuda
