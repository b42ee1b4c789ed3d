#include "ops/shape_ops.h"

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

template <typename T>
void reshape(const Run& run) {
  const T* x = run.in<T>(0);
  T* y = run.out<T>();
  if (x != y) std::copy_n(x, run.out_shape().elements(), y);
}

/// A row of the result is a row of each part after the other.
template <typename T>
void concat(const Run& run) {
  T* y = run.out<T>();
  for (int64_t n = 0; n < run.out_shape()[0]; ++n) {
    for (size_t part = 0; part < run.inputs.size(); ++part) {
      const int64_t count = run.in_shape(part).elements_from(1);
      y = std::copy_n(run.in<T>(part) + n * count, count, y);
    }
  }
}

template <typename T>
void slice_channels(const Run& run) {
  const Shape& from = run.in_shape(0);
  const Shape& to = run.out_shape();
  const int64_t skipped = run.attrs<SliceAttributes>().begin * from.elements_from(2);
  for (int64_t n = 0; n < to[0]; ++n) {
    std::copy_n(run.in<T>(0) + n * from.elements_from(1) + skipped, to.elements_from(1),
                run.out<T>() + n * to.elements_from(1));
  }
}

const RegisterKernel kReshape{"ref", "reshape", prepare<reshape<float>, reshape<double>>};
const RegisterKernel kConcat{"ref", "concat", prepare<concat<float>, concat<double>>};
const RegisterKernel kSlice{"ref", "slice_channels",
                            prepare<slice_channels<float>, slice_channels<double>>};

}  // namespace
}  // namespace crossbow::ref
