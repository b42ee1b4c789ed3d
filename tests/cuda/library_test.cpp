// What users are told where a library of NVIDIA's is missing or too old.
#include "device/cuda/library.h"

#include <gtest/gtest.h>

#include "device/cuda/gpu.h"
#include "support/error_text.h"

namespace crossbow::cuda {
namespace {

using testing::error_of;

constexpr Library::Need kNeed{"dense layers on GPUs", "cuBLASLt", "13"};

TEST(Library, SaysWhatNeedsItWhereItIsMissing) {
  const std::string error = error_of([] { Library(kNeed, "libabsent.so.1", "/absent/lib.so"); });
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "dense layers on GPUs need NVIDIA's cuBLASLt 13 or later, and "
                      "libabsent.so.1 cannot be loaded (/absent/lib.so: ",
                      error);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "): install it, or put its folder into LD_LIBRARY_PATH", error);
}

TEST(Library, IsTakenFromWhereTheBuildFoundIt) {
  const Library library(kNeed, "libabsent.so.1", "libm.so.6");
  double (*cosine)(double) = nullptr;
  library.load(cosine, "cos");
  EXPECT_EQ(cosine(0), 1);
}

TEST(Library, SaysWhichVersionIsNeededWhereItIsTooOld) {
  const Library library(kNeed, "libm.so.6", "");
  void (*absent)() = nullptr;
  EXPECT_EQ(error_of([&] { library.load(absent, "cublasLtMatmul"); }),
            "libm.so.6 lacks cublasLtMatmul: install cuBLASLt 13 or later");
  EXPECT_EQ(error_of([&] { library.refuse("12.1"); }),
            "libm.so.6 is cuBLASLt 12.1, and dense layers on GPUs need 13 or later: install that");
}

TEST(Library, OldGpusHaveNoKernels) {
  EXPECT_EQ(why_too_old(7), "this build's kernels need 8.0 or later");
  EXPECT_EQ(why_too_old(8), "");
}

}  // namespace
}  // namespace crossbow::cuda
