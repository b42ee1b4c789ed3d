// What nvcc made of our kernels, as PTX that this program holds.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace crossbow::testing {
namespace {

/// nvcc puts a trap where it sees that a thread would never end, or that no value is defined: so for
/// constants of the host that a kernel takes by reference. On the host such a kernel is right.
TEST(GpuKernels, HaveNoTraps) {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program{std::istreambuf_iterator<char>(file), {}};
  const std::string trap = std::string("\ttrap") + ";";  // not a text of this program
  EXPECT_NE(program.find(".entry _ZN8crossbow4cuda"), std::string::npos);
  EXPECT_EQ(program.find(trap), std::string::npos);
}

}  // namespace
}  // namespace crossbow::testing
