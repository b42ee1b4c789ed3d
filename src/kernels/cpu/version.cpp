#include "kernels/cpu/version.h"

#include <fmt/format.h>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/onednn.h"

namespace crossbow {
namespace {

/// Those that oneDNN 2.6 and 3 both have.
std::string name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "its own choice";
  }
}

}  // namespace

CpuVersion cpu_version() {
  onednn::engine();  // which may forbid an instruction set
  const auto* v = dnnl::version();
  return {fmt::format("{}.{}.{}", v->major, v->minor, v->patch),
          name_of(dnnl::get_effective_cpu_isa()), loops().name};
}

}  // namespace crossbow
