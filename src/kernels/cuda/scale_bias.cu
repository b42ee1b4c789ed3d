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

  template <int width>
  struct Loaded {
    Packet<T, width> dy, x;
  };

  template <int width>
  CROSSBOW_GPU void add_up(const Thread& t, Pair (&sums)[width]) const {
    using Values = Packet<T, width>;
    shape.for_packets(
        t,
        [&](int64_t i) {
          Loaded<width> loaded{Values::at(dy + i), {}};
          if (dscale) loaded.x = Values::at(x + i);
          return loaded;
        },
        [&](int64_t, const Loaded<width>& loaded) {
          CROSSBOW_UNROLL
          for (int j = 0; j < width; ++j) {
            sums[j] += {dscale ? loaded.dy[j] * loaded.x[j] : 0, loaded.dy[j]};
          }
        });
  }
  template <int width>
  CROSSBOW_GPU void apply(const Thread& t, const Pair* sums) const {
    using Values = Packet<T, width>;
    const int c = shape.channel(t);
    float scales[width];
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) {
      if (shape.is_first(t) && dscale) dscale[c + j] = sums[j].a;
      if (shape.is_first(t) && dbias) dbias[c + j] = sums[j].b;
      scales[j] = scale ? scale[c + j] : 1;
    }
    shape.for_packets(
        t, [&](int64_t i) { return Values::at(dy + i); },
        [&](int64_t i, const Values& values) {
          Values result;
          CROSSBOW_UNROLL
          for (int j = 0; j < width; ++j) result.values[j] = values[j] * scales[j];
          result.store(dx + i);
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
  const Channels shape = channels_of(dy.shape, context);
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
    };
    return [=, scratch = o.scratch](const Step&) { sum_and_apply(gradient, scratch); };
  });
  return kernel;
}

const RegisterKernel kForward{kDevice, "scale_bias", prepare};
const RegisterKernel kGrad{kDevice, "scale_bias_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
