#include "kernels/cpu/loops.h"

#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace crossbow {

// One for each add_simd line of src/CMakeLists.txt.
namespace simd {
namespace plain {
const Loops& table();
}
#if defined(__x86_64__)
namespace avx2 {
const Loops& table();
}
namespace avx512 {
const Loops& table();
}
namespace avx512_bf16 {
const Loops& table();
}
#endif
}  // namespace simd

const Loops* find_loops(const char* name) {
  const std::string_view set = name;
  if (set == "plain") return &simd::plain::table();
#if defined(__x86_64__)
  if (set == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return &simd::avx2::table();
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (set == "avx512" && avx512) return &simd::avx512::table();
  if (set == "avx512_bf16" && avx512 && __builtin_cpu_supports("avx512bf16")) {
    return &simd::avx512_bf16::table();
  }
#endif
  return nullptr;
}

namespace {

const Loops& choose() {
  if (const char* wanted = std::getenv("CROSSBOW_ISA")) {
    if (const Loops* found = find_loops(wanted)) return *found;
    fail(
        "CROSSBOW_ISA is '{}', but this machine runs no such instruction set; use plain, avx2, "
        "avx512 or avx512_bf16, or unset it",
        wanted);
  }
  for (const char* name : {"avx512_bf16", "avx512", "avx2"}) {
    if (const Loops* found = find_loops(name)) return *found;
  }
  return simd::plain::table();
}

}  // namespace

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

}  // namespace crossbow
