#include "graph/source.h"

#include <algorithm>

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

/// Labels stay int32; images come as f32 or as pixels, and are stored at the program's precision.
template <typename T>
void input(const Run& run) {
  const auto& a = run.attrs<InputAttributes>();
  const void* fed = run.step.inputs[a.slot];
  const int64_t count = run.out_shape().elements();
  if (a.normalisation) {
    const Shape& shape = run.out_shape();
    const int64_t plane = shape[2] * shape[3];
    for (int64_t i = 0; i < count; ++i) {
      const auto channel = static_cast<size_t>(i / plane % shape[1]);
      run.out<T>()[i] = a.normalisation->of(static_cast<const uint8_t*>(fed)[i], channel);
    }
  } else if (run.node.outputs[0].dtype == DType::i32) {
    std::copy_n(static_cast<const int32_t*>(fed), count, run.out<int32_t>());
  } else {
    std::copy_n(static_cast<const float*>(fed), count, run.out<T>());
  }
}

template <typename T>
void fill(const Run& run) {
  std::fill_n(run.out<T>(), run.out_shape().elements(), T{run.attrs<FillAttributes>().value});
}

const RegisterKernel kInput{"ref", "input", prepare<input<float>, input<double>>};
const RegisterKernel kFill{"ref", "fill", prepare<fill<float>, fill<double>>};

}  // namespace
}  // namespace crossbow::ref
