#include "ops/batch_norm.h"

#include <cmath>

#include "kernels/cuda/activate.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

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
  const Pair* moments;                    // in training, by slice

  /// Distances from the channel's first value, whose squares lose less in f32 than those of the
  /// values.
  template <int width>
  CROSSBOW_GPU void add_up(const Thread& t, Pair (&sums)[width]) const {
    using Values = Packet<T, width>;
    const Values first = Values::at(x + shape.channel(t));
    shape.for_packets(
        t, [&](int64_t i) { return Values::at(x + i); },
        [&](int64_t, const Values& values) {
          CROSSBOW_UNROLL
          for (int j = 0; j < width; ++j) {
            const float distance = values[j] - first[j];
            sums[j] += {distance, distance * distance};
          }
        });
  }
  template <int width>
  CROSSBOW_GPU void apply(const Thread& t) const {
    using Values = Packet<T, width>;
    const Pair* const sums = attributes.training ? shape.total(t, moments) : nullptr;
    if (!shape.has_channels(t)) return;
    const int64_t first = shape.channel(t);
    float means[width], factors[width], shifts[width];
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) {
      const int64_t c = first + j;
      means[j] = sums ? 0 : running_mean[c];
      float variance = sums ? 0 : running_variance[c];
      if (sums) {
        const Pair sum = sums[c - shape.first_of_block(t)];
        const float count = static_cast<float>(shape.rows), distance = sum.a / count;
        means[j] = static_cast<float>(x[c]) + distance;
        variance = fmaxf(sum.b / count - distance * distance, 0);
      }
      const float inverse_std = 1 / sqrtf(variance + attributes.epsilon);
      if (sums && shape.is_first(t)) {
        const float kept = attributes.momentum;
        running_mean[c] = kept * running_mean[c] + (1 - kept) * means[j];
        running_variance[c] = kept * running_variance[c] + (1 - kept) * variance;
        batch_mean[c] = means[j];
        batch_inverse_std[c] = inverse_std;
      }
      factors[j] = scale[c] * inverse_std;
      shifts[j] = shift[c];
    }
    struct Loaded {
      Values x, residual;
    };
    shape.for_packets(
        t,
        [&](int64_t i) {
          Loaded loaded{Values::at(x + i), {}};
          if (residual) loaded.residual = Values::at(residual + i);
          return loaded;
        },
        [&](int64_t i, const Loaded& loaded) {
          Values result;
          CROSSBOW_UNROLL
          for (int j = 0; j < width; ++j) {
            float value = factors[j] * (loaded.x[j] - means[j]) + shifts[j];
            if (residual) value += loaded.residual[j];
            result.values[j] = activate(attributes.activation, value);
          }
          result.store(y + i);
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
  const T* y;  // null: by x
  T* dx;
  float *dscale, *dshift;
  T* dresidual;
  const Pair* sums;  // (dscale, dshift) by slice

  /// What elements of the thread's channels have in common.
  template <int width>
  struct Common {
    float mean[width], inverse_std[width], scale[width], shift[width];
  };
  template <int width>
  CROSSBOW_GPU Common<width> common(int64_t first) const {
    Common<width> common;
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) {
      common.mean[j] = mean[first + j];
      common.inverse_std[j] = inverse_std[first + j];
      common.scale[j] = scale[first + j];
      common.shift[j] = shift[first + j];
    }
    return common;
  }
  template <int width>
  struct Loaded {
    Packet<T, width> dy, x, y;

    /// x̂
    CROSSBOW_GPU float normalised(const Common<width>& common, int j) const {
      return (x[j] - common.mean[j]) * common.inverse_std[j];
    }
  };
  template <int width>
  CROSSBOW_GPU Loaded<width> load(int64_t i) const {
    using Values = Packet<T, width>;
    Loaded<width> loaded{Values::at(dy + i), Values::at(x + i), {}};
    if (y) loaded.y = Values::at(y + i);
    return loaded;
  }
  template <int width>
  CROSSBOW_GPU float g(const Loaded<width>& loaded, const Common<width>& common, int j) const {
    if (attributes.activation == Activation::none) return loaded.dy[j];
    const float output =
        y ? loaded.y[j] : common.scale[j] * loaded.normalised(common, j) + common.shift[j];
    return loaded.dy[j] * derivative(attributes.activation, output);
  }

  template <int width>
  CROSSBOW_GPU void add_up(const Thread& t, Pair (&sums)[width]) const {
    const auto common = this->common<width>(shape.channel(t));
    shape.for_packets(
        t, [&](int64_t i) { return load<width>(i); },
        [&](int64_t, const Loaded<width>& loaded) {
          CROSSBOW_UNROLL
          for (int j = 0; j < width; ++j) {
            const float gradient = g(loaded, common, j);
            sums[j] += {gradient * loaded.normalised(common, j), gradient};
          }
        });
  }
  template <int width>
  CROSSBOW_GPU void apply(const Thread& t) const {
    const Pair* const totals = shape.total(t, sums);
    if (!shape.has_channels(t)) return;
    const int64_t first = shape.channel(t);
    const auto common = this->common<width>(first);
    const float count = static_cast<float>(shape.rows);
    float slopes[width], offsets[width];
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) {
      const Pair total = totals[first + j - shape.first_of_block(t)];
      if (shape.is_first(t)) {
        dscale[first + j] = total.a;
        dshift[first + j] = total.b;
      }
      slopes[j] = total.a / count;
      offsets[j] = total.b / count;
    }
    shape.for_packets(
        t, [&](int64_t i) { return load<width>(i); },  // before dx, which may lie in dy's place
        [&](int64_t i, const Loaded<width>& loaded) {
          Packet<T, width> result, gradients;
          CROSSBOW_UNROLL
          for (int j = 0; j < width; ++j) {
            const float gradient = g(loaded, common, j);
            const float rest = gradient - offsets[j] - loaded.normalised(common, j) * slopes[j];
            result.values[j] = common.scale[j] * common.inverse_std[j] * rest;
            gradients.values[j] = gradient;
          }
          result.store(dx + i);
          if (dresidual) gradients.store(dresidual + i);
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
      if (training) sum_rows(normalise, as<Pair>(o.scratch));
      apply(normalise);
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
      sum_rows(gradient, as<Pair>(o.scratch));
      apply(gradient);
    };
  });
  return kernel;
}

const RegisterKernel kForward{kDevice, "batch_norm", prepare};
const RegisterKernel kGrad{kDevice, "batch_norm_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
