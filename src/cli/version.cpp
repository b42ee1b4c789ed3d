// crossbow --version
#include <fmt/format.h>

#include "cli/command.h"
#include "comm/mpi.h"
#include "kernels/cpu/version.h"

namespace crossbow::cli {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

}  // namespace

std::string version_text() {
  const CpuVersion cpu = cpu_version();
  return fmt::format(
      "crossbow {}\n"
      "compiler  {}\n"
      "oneDNN    {}, {} on this machine\n"
      "loops     {} on this machine\n"
      "MPI       {}",
      CROSSBOW_VERSION, kCompiler, cpu.onednn, cpu.onednn_isa, cpu.loops, mpi_version());
}

}  // namespace crossbow::cli
