#include "ops/scale_bias.h"

#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

template <typename T>
struct ScaleBias {
  int64_t channels;
  const T* x;
  const float *scale, *bias;  // may be null
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const int64_t c = i % channels;
    y[i] = x[i] * (scale ? scale[c] : 1) + (bias ? bias[c] : 0);
  }
};

template <typename T>
struct Gradient {
  Channels shape;
  const T *dy, *x;
  const float* scale;  // null: 1, and x is absent
  T* dx;
  float *dscale, *dbias;  // may be null
  const Pair* sums;       // (dscale, dbias) by slice

  CROSSBOW_GPU Pair operator()(int64_t row, int64_t c) const {
    const int64_t i = row * shape.channels + c;
    return {dscale ? dy[i] * x[i] : 0, dy[i]};
  }
  CROSSBOW_GPU void operator()(const Thread& t) const {
    const int64_t c = shape.channel(t);
    const Pair total = shape.total(t, sums);
    if (c >= shape.channels) return;
    if (shape.is_first(t)) {
      if (dscale) dscale[c] = total.a;
      if (dbias) dbias[c] = total.b;
    }
    shape.for_rows(t, [&](int64_t row) {
      const int64_t i = row * shape.channels + c;
      dx[i] = dy[i] * (scale ? scale[c] : 1);
    });
  }
};

PreparedKernel prepare(const PrepareContext& context) {
  const Layout x = input_layout(context, 0), c = plain_f32({x.shape[1]});
  return elementwise({x, c, c}, {x}, x, [channels = x.shape[1]](auto t, const Operands& o) {
    using T = decltype(t);
    return ScaleBias<T>{channels, as<T>(o.inputs[0]), as<float>(o.inputs[1]),
                        as<float>(o.inputs[2]), as<T>(o.outputs[0])};
  });
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout dy = input_layout(context, 0), c = plain_f32({dy.shape[1]});
  const auto& attributes = context.node.attrs<ScaleBiasGradAttributes>();
  const Channels shape = channels_of(dy.shape);
  PreparedKernel kernel = prepared({dy, dy, c}, {dy, c, c}, shape.scratch_bytes());
  kernel.outputs.resize(context.node.outputs.size());
  kernel.bind = bind_storage(dy.dtype, [=](auto t, const Operands& o) {
    using T = decltype(t);
    const Gradient<T> gradient{
        shape,
        as<T>(o.inputs[0]),
        as<T>(o.inputs[1]),
        as<float>(o.inputs[2]),
        as<T>(o.outputs[0]),
        attributes.scale ? as<float>(o.outputs[1]) : nullptr,
        attributes.bias ? as<float>(o.outputs[attributes.scale ? 2 : 1]) : nullptr,
        as<Pair>(o.scratch),
    };
    return [=](const Step&) {
      sum_rows(shape, gradient, o.scratch);
      launch(shape.grid(), gradient);
    };
  });
  return kernel;
}

const RegisterKernel kForward{kDevice, "scale_bias", prepare};
const RegisterKernel kGrad{kDevice, "scale_bias_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
