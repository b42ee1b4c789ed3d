// What the CPU's kernels are made of, for `crossbow --version`.
#pragma once

#include <string>

namespace crossbow {

struct CpuVersion {
  std::string onednn;      // its version
  std::string onednn_isa;  // the instruction set that it uses on this machine
  std::string loops;       // the one that our own loops use
};
/// Throws Error as loops() does.
CpuVersion cpu_version();

}  // namespace crossbow
