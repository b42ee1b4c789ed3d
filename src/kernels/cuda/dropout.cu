#include "ops/dropout.h"

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Randomness is defined by an element's place in its row-major row, by fours, of which a thread
/// has one; in memory a row's channels lie last.
struct Row {
  int64_t channels, positions;

  constexpr int64_t elements() const { return channels * positions; }
  constexpr int64_t quads() const { return (elements() + 3) / 4; }
  /// Of the row's i-th thread: neighbours have neighbouring channels where that is possible.
  CROSSBOW_GPU int64_t quad(int64_t i) const {
    return positions % 4 == 0 ? i % channels * (positions / 4) + i / channels : i;
  }
  CROSSBOW_GPU int64_t address(int64_t element) const {
    return element % positions * channels + element / positions;
  }
};

template <typename T>
struct Dropout {
  const Step* step;
  float probability;
  uint32_t layer;
  Row shape;
  const T* x;
  T* y;
  uint8_t* mask;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const int64_t row = i / shape.quads(), quad = shape.quad(i % shape.quads());
    const auto random = dropout_random({step->seed, step->epoch, layer},
                                       step->first_sample + static_cast<uint64_t>(row),
                                       static_cast<uint32_t>(quad));
    const double threshold = probability * 0x1p32;
    const float scale = 1 / (1 - probability);
    for (int64_t e = 4 * quad; e < 4 * quad + 4 && e < shape.elements(); ++e) {
      const int64_t at = row * shape.elements() + shape.address(e);
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
  const Layout x = input_layout(context, 0), mask = x.with_dtype(DType::u8);
  const int64_t rows = x.shape[0], channels = x.shape.rank() > 1 ? x.shape[1] : 1;
  const Row row{channels, x.shape.elements_from(1) / channels};
  PreparedKernel kernel = prepared({x}, {x, mask});
  const auto& attributes = context.node.attrs<DropoutAttributes>();
  kernel.bind = bind_storage(x.dtype, [=, probability = attributes.probability,
                                       layer = attributes.layer](auto t, const Operands& o) {
    using T = decltype(t);
    return [=, x = as<T>(o.inputs[0]), y = as<T>(o.outputs[0]),
            mask = as<uint8_t>(o.outputs[1])](const Step& step) {
      for_each(rows * row.quads(), Dropout<T>{&step, probability, layer, row, x, y, mask});
    };
  });
  return kernel;
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout x = input_layout(context, 0);
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
