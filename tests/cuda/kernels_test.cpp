// What nvcc made of our kernels, as PTX that this program holds.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace crossbow::testing {
namespace {

/// nvcc puts a trap where it sees that a thread would never end, as where a kernel takes a constant
/// of the host by reference. On the host such a kernel is right.
TEST(GpuKernels, HaveNoTraps) {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program{std::istreambuf_iterator<char>(file), {}};
  const auto has = [&](const std::string& instruction) {
    return program.find("\n" + instruction + ";") != std::string::npos;
  };
  EXPECT_TRUE(has("ret")) << "no PTX that can be read";
  EXPECT_FALSE(has("trap"));
}

}  // namespace
}  // namespace crossbow::testing
