#include "ops/dropout.h"

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Row-major: randomness is defined by an element's place in its row. A thread has four neighbours.
template <typename T>
struct Dropout {
  const Step* step;
  DropoutAttributes attributes;
  int64_t row_elements, row_quads;
  const T* x;
  T* y;
  uint8_t* mask;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const int64_t row = i / row_quads, quad = i % row_quads;
    const auto random = dropout_random({step->seed, step->epoch, attributes.layer},
                                       step->first_sample + static_cast<uint64_t>(row),
                                       static_cast<uint32_t>(quad));
    const double threshold = attributes.probability * 0x1p32;
    const float scale = 1 / (1 - attributes.probability);
    for (int64_t e = 4 * quad; e < 4 * quad + 4 && e < row_elements; ++e) {
      const int64_t at = row * row_elements + e;
      mask[at] = random[e % 4] >= threshold;
      y[at] = mask[at] ? x[at] * scale : 0;
    }
  }
};

template <typename T>
struct DropoutGrad {
  float scale;
  const T* dy;
  const uint8_t* mask;
  T* dx;

  CROSSBOW_GPU void operator()(int64_t i) const { dx[i] = mask[i] ? dy[i] * scale : 0; }
};

PreparedKernel prepare(const PrepareContext& context) {
  const Shape& shape = context.input_type(0).shape;
  const Layout x = Layout::plain(shape, context.precision), mask = x.with_dtype(DType::u8);
  const int64_t rows = shape[0], row_elements = shape.elements_from(1);
  const int64_t row_quads = (row_elements + 3) / 4;
  PreparedKernel kernel = prepared({x}, {x, mask});
  kernel.bind = bind_storage(x.dtype, [=, attributes = context.node.attrs<DropoutAttributes>()](
                                          auto t, const Operands& o) {
    using T = decltype(t);
    return [=, x = as<T>(o.inputs[0]), y = as<T>(o.outputs[0]),
            mask = as<uint8_t>(o.outputs[1])](const Step& step) {
      for_each(rows * row_quads,
               Dropout<T>{&step, attributes, row_elements, row_quads, x, y, mask});
    };
  });
  return kernel;
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout x = Layout::plain(context.input_type(0).shape, context.precision);
  const float scale = 1 / (1 - context.node.attrs<DropoutAttributes>().probability);
  return elementwise({x, x.with_dtype(DType::u8)}, {x}, x, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return DropoutGrad<T>{scale, as<T>(o.inputs[0]), as<uint8_t>(o.inputs[1]), as<T>(o.outputs[0])};
  });
}

const RegisterKernel kForward{kDevice, "dropout", prepare};
const RegisterKernel kGrad{kDevice, "dropout_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
