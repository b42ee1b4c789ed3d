// The program on machines whose driver or libraries are no good for it.
#include <filesystem>

#include "cli/program.h"

namespace crossbow::testing {
namespace {

class WithoutAGpu : public ProgramTest {
 protected:
  std::string with_old_driver() const {
    const auto folder = std::filesystem::path(crossbow_binary()).parent_path() / "old_driver";
    return "LD_LIBRARY_PATH='" + folder.string() + "' " + crossbow_binary() + ' ';
  }
};

TEST_F(WithoutAGpu, SaysThatTheDriverIsTooOld) {
  const std::string why = "the NVIDIA driver is made for CUDA 12.4, and this build needs ";
  const Outcome o = shell(with_old_driver() + "train --device cuda --deterministic");
  EXPECT_EQ(o.code, 2);
  expect_says(o.err, "--device cuda: there is no GPU: " + why);
  expect_says(o.err, "install driver 580 or later");
  EXPECT_EQ(shell(with_old_driver() + "devices").code, 0);
}

TEST_F(WithoutAGpu, TrainsOnTheCpuBesideAnyDriver) {
  const Outcome o =
      shell(with_old_driver() + "train --model logistic --deterministic --epochs 1 --data " +
            data_.spec());
  EXPECT_EQ(o.code, 0) << o.err;
}

}  // namespace
}  // namespace crossbow::testing
