#include "kernels/precision.h"

#include "kernels/cpu/onednn.h"

namespace crossbow {
namespace {

/// oneDNN has products in bf16 for AVX-512 and later sets only.
bool has_bf16() {
  static const bool has = [] {
    const auto small = onednn::desc_any({1, 1}, DType::bf16);
    try {
      onednn::dense_forward(small, small, {}, small);
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

const RegisterBf16 kRegistered{"cpu", has_bf16};

}  // namespace
}  // namespace crossbow
