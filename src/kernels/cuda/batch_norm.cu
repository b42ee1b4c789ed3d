#include "ops/batch_norm.h"

#include <cmath>

#include "kernels/cuda/activate.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// Distances from the channel's first value, whose squares lose less in f32 than those of the
/// values.
template <typename T>
struct Moments {
  const T* x;
  int64_t channels;

  CROSSBOW_GPU Pair operator()(int64_t row, int64_t c) const {
    const float distance = x[row * channels + c] - x[c];
    return {distance, distance * distance};
  }
};

template <typename T>
struct Normalise {
  BatchNormAttributes attributes;
  Channels shape;
  const T* x;
  const float *scale, *shift;
  float *running_mean, *running_variance;
  const T* residual;
  T* y;
  float *batch_mean, *batch_inverse_std;  // in training
  const Pair* moments;                    // in training

  CROSSBOW_GPU void operator()(const Thread& t) const {
    const int64_t c = shape.channel(t);
    const bool has_channel = c < shape.channels;
    float mean = 0, variance = 0;
    if (attributes.training) {
      const Pair sums = shape.total(t, moments);
      const float count = static_cast<float>(shape.rows);
      const float distance = sums.a / count;
      variance = fmaxf(sums.b / count - distance * distance, 0);
      if (has_channel) mean = static_cast<float>(x[c]) + distance;
    } else if (has_channel) {
      mean = running_mean[c];
      variance = running_variance[c];
    }
    if (!has_channel) return;
    const float inverse_std = 1 / sqrtf(variance + attributes.epsilon);
    if (attributes.training && shape.is_first(t)) {
      const float kept = attributes.momentum;
      running_mean[c] = kept * running_mean[c] + (1 - kept) * mean;
      running_variance[c] = kept * running_variance[c] + (1 - kept) * variance;
      batch_mean[c] = mean;
      batch_inverse_std[c] = inverse_std;
    }
    const float factor = scale[c] * inverse_std;
    shape.for_rows(t, [&](int64_t row) {
      const int64_t i = row * shape.channels + c;
      float value = factor * (x[i] - mean) + shift[c];
      if (residual) value += residual[i];
      y[i] = activate(attributes.activation, value);
    });
  }
};

/// With g = dy·activation'(y) and x̂ = (x − mean)·inverse_std, sums over a channel's m elements:
/// dshift = Σg, dscale = Σ g·x̂, dx = scale·inverse_std·(g − dshift/m − x̂·dscale/m).
template <typename T>
struct Gradient {
  BatchNormGradAttributes attributes;
  Channels shape;
  const T *dy, *x;
  const float *scale, *shift, *mean, *inverse_std;
  const T* y;
  T* dx;
  float *dscale, *dshift;
  T* dresidual;
  const Pair* sums;  // (dscale, dshift) by slice

  CROSSBOW_GPU float normalised(int64_t i, int64_t c) const {
    return (x[i] - mean[c]) * inverse_std[c];
  }
  CROSSBOW_GPU float g(int64_t i, int64_t c) const {
    if (attributes.activation == Activation::none) return dy[i];
    const float output = y ? static_cast<float>(y[i]) : scale[c] * normalised(i, c) + shift[c];
    return dy[i] * derivative(attributes.activation, output);
  }
  CROSSBOW_GPU Pair operator()(int64_t row, int64_t c) const {
    const int64_t i = row * shape.channels + c;
    const float gradient = g(i, c);
    return {gradient * normalised(i, c), gradient};
  }
  CROSSBOW_GPU void operator()(const Thread& t) const {
    const int64_t c = shape.channel(t);
    const Pair total = shape.total(t, sums);
    if (c >= shape.channels) return;
    if (shape.is_first(t)) {
      dscale[c] = total.a;
      dshift[c] = total.b;
    }
    const float factor = scale[c] * inverse_std[c], count = static_cast<float>(shape.rows);
    const float slope = total.a / count, offset = total.b / count;
    shape.for_rows(t, [&](int64_t row) {
      const int64_t i = row * shape.channels + c;
      const float gradient = g(i, c);  // before dx, which may lie in dy's place
      dx[i] = factor * (gradient - offset - normalised(i, c) * slope);
      if (dresidual) dresidual[i] = gradient;
    });
  }
};

PreparedKernel prepare(const PrepareContext& context) {
  const Layout x = input_layout(context, 0), c = plain_f32({x.shape[1]});
  const auto& attributes = context.node.attrs<BatchNormAttributes>();
  const Channels shape = channels_of(x.shape);
  PreparedKernel kernel = prepared({x, c, c, c, c}, {x, c, c}, shape.scratch_bytes());
  if (context.node.inputs.size() > 5) kernel.inputs.push_back(x);
  kernel.outputs.resize(context.node.outputs.size());
  kernel.bind = bind_storage(x.dtype, [=](auto t, const Operands& o) {
    using T = decltype(t);
    const bool training = attributes.training;
    const Normalise<T> normalise{
        attributes,
        shape,
        as<T>(o.inputs[0]),
        as<float>(o.inputs[1]),
        as<float>(o.inputs[2]),
        as<float>(o.inputs[3]),
        as<float>(o.inputs[4]),
        o.inputs.size() > 5 ? as<T>(o.inputs[5]) : nullptr,
        as<T>(o.outputs[0]),
        training ? as<float>(o.outputs[1]) : nullptr,
        training ? as<float>(o.outputs[2]) : nullptr,
        as<Pair>(o.scratch),
    };
    return [=](const Step&) {
      if (training) sum_rows(shape, Moments<T>{normalise.x, shape.channels}, o.scratch);
      launch(shape.grid(), normalise);
    };
  });
  return kernel;
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout x = input_layout(context, 1), c = plain_f32({x.shape[1]});
  const auto& attributes = context.node.attrs<BatchNormGradAttributes>();
  const Channels shape = channels_of(x.shape);
  PreparedKernel kernel = prepared({x, x, c, c, c, c, x}, {x, c, c, x}, shape.scratch_bytes());
  kernel.inputs.resize(context.node.inputs.size());
  kernel.outputs.resize(context.node.outputs.size());
  kernel.bind = bind_storage(x.dtype, [=](auto t, const Operands& o) {
    using T = decltype(t);
    const Gradient<T> gradient{
        attributes,
        shape,
        as<T>(o.inputs[0]),
        as<T>(o.inputs[1]),
        as<float>(o.inputs[2]),
        as<float>(o.inputs[3]),
        as<float>(o.inputs[4]),
        as<float>(o.inputs[5]),
        o.inputs.size() > 6 ? as<T>(o.inputs[6]) : nullptr,
        as<T>(o.outputs[0]),
        as<float>(o.outputs[1]),
        as<float>(o.outputs[2]),
        attributes.residual ? as<T>(o.outputs[3]) : nullptr,
        as<Pair>(o.scratch),
    };
    return [=](const Step&) {
      sum_rows(shape, gradient, o.scratch);
      launch(shape.grid(), gradient);
    };
  });
  return kernel;
}

const RegisterKernel kForward{kDevice, "batch_norm", prepare};
const RegisterKernel kGrad{kDevice, "batch_norm_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
