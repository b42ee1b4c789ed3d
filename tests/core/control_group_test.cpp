#include "core/control_group.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/files.h"

namespace crossbow {
namespace {

constexpr double kMiB = 1 << 20;

class ControlGroup : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    data::write_file(root_.path() / path, {text.begin(), text.end()});
  }
  void mount(const std::string& lines) { write("proc/self/mountinfo", lines); }
  void groups(const std::string& lines) { write("proc/self/cgroup", lines); }
  GroupLimits limits() const { return group_limits(root_.path()); }

 private:
  data::TemporaryFolder root_;
};

const std::string kVersion2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kVersion1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

TEST_F(ControlGroup, NothingSaysNoLimit) {
  EXPECT_TRUE(std::isinf(limits().memory_mb));
  EXPECT_TRUE(std::isinf(limits().cpus));
  mount(kVersion2);
  groups("0::/\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(limits().memory_mb));
  EXPECT_TRUE(std::isinf(limits().cpus));
}

TEST_F(ControlGroup, AContainerSeesItsOwnGroupAtTheTop) {
  mount(kVersion2);
  groups("0::/\n");
  write("sys/fs/cgroup/memory.max", "268435456\n");
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(limits().memory_mb, 256);
  EXPECT_EQ(limits().cpus, 1.5);
}

TEST_F(ControlGroup, TheLeastLimitOfNestedGroupsCounts) {
  mount(kVersion2);
  groups("0::/a.slice/b.scope/c\n");
  write("sys/fs/cgroup/a.slice/memory.max", "max\n");
  write("sys/fs/cgroup/a.slice/cpu.max", "50000 100000\n");
  write("sys/fs/cgroup/a.slice/b.scope/memory.max", std::to_string(int64_t(64 * kMiB)));
  write("sys/fs/cgroup/a.slice/b.scope/c/memory.max", std::to_string(int64_t(96 * kMiB)));
  write("sys/fs/cgroup/a.slice/b.scope/c/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/a.slice/other/memory.max", "4096\n");
  EXPECT_EQ(limits().memory_mb, 64);
  EXPECT_EQ(limits().cpus, 0.5);
}

TEST_F(ControlGroup, Version1HasAHierarchyForEachController) {
  mount(kVersion1);
  groups("9:name=systemd:/\n4:memory:/job/inner\n2:cpu,cpuacct:/job\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_GT(limits().memory_mb, 1e12);
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", std::to_string(int64_t(32 * kMiB)));
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(limits().cpus));
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limits().memory_mb, 32);
  EXPECT_EQ(limits().cpus, 2.5);
}

/// Where proc/ tells the group as the host names it, and sys/ shows no more than that group.
TEST_F(ControlGroup, AContainerOfVersion1MountsItsGroup) {
  mount("35 31 0:32 /docker/4711 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  groups("4:memory:/docker/4711/worker\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(int64_t(512 * kMiB)));
  EXPECT_EQ(limits().memory_mb, 512);
  write("sys/fs/cgroup/memory/worker/memory.limit_in_bytes", std::to_string(int64_t(128 * kMiB)));
  EXPECT_EQ(limits().memory_mb, 128);
}

TEST_F(ControlGroup, AGroupWhoseNameOnlyBeginsLikeTheTopLiesNotInIt) {
  mount("35 31 0:32 /docker/47 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  groups("4:memory:/docker/4711/worker\n");
  write("sys/fs/cgroup/memory/11/worker/memory.limit_in_bytes", "4096\n");
  EXPECT_TRUE(std::isinf(limits().memory_mb));
}

/// Each hierarchy has its own line, in whatever order.
TEST_F(ControlGroup, VersionsSideBySideHaveGroupsOfTheirOwn) {
  mount(kVersion2 + "35 31 0:32 / /sys/fs/v1 rw - cgroup cgroup rw,memory\n" +
        "36 31 0:33 / /sys/fs/cpuset rw - cgroup cgroup rw,cpuset\n");
  groups("5:cpu:/processor\n4:memory:/old\n3:cpuset:/set\n0::/new\n");
  for (const char* wrong : {"cgroup/processor", "cgroup/old", "v1/new", "cpuset/processor"}) {
    write(std::string("sys/fs/") + wrong + "/memory.max", "4096\n");
  }
  EXPECT_TRUE(std::isinf(limits().memory_mb));
  write("sys/fs/cgroup/new/memory.max", std::to_string(int64_t(64 * kMiB)));
  EXPECT_EQ(limits().memory_mb, 64);
  write("sys/fs/v1/old/memory.limit_in_bytes", std::to_string(int64_t(32 * kMiB)));
  EXPECT_EQ(limits().memory_mb, 32);
}

TEST_F(ControlGroup, OtherFileSystemsHaveNoLimits) {
  mount("31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n");
  groups("0::/\n");
  write("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_TRUE(std::isinf(limits().memory_mb));
}

}  // namespace
}  // namespace crossbow
