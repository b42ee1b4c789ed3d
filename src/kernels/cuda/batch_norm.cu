#include "ops/batch_norm.h"

#include <cmath>

#include "kernels/cuda/activate.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

CROSSBOW_GPU inline float inverse_sqrt(float x) {
#ifdef __CUDACC__
  return rsqrtf(x);  // to two units in the last place
#else
  return 1 / sqrtf(x);
#endif
}

/// Calls f with the activation, of those that the op takes.
template <typename F>
Call with_activation(Activation activation, const F& f) {
  switch (activation) {
    case Activation::relu:
      return f(Fixed<Activation::relu>());
    case Activation::relu6:
      return f(Fixed<Activation::relu6>());
    default:
      return f(Fixed<Activation::none>());
  }
}

template <typename T, typename A>
struct Normalise {
  float epsilon, momentum;
  A activation;
  Channels shape;
  const T* x;
  const float *scale, *shift;
  float *running_mean, *running_variance;
  const T* residual;
  T* y;
  float *batch_mean, *batch_inverse_std;  // in training

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
  CROSSBOW_GPU void apply(const Thread& t, const Pair* sums) const {  // null: by running moments
    using Values = Packet<T, width>;
    using Floats = Packet<float, width>;
    const int c = shape.channel(t);
    Floats factors = Floats::at(scale + c), means, variances;
    const Floats shifts = Floats::at(shift + c);
    if (sums) {
      const Values first = Values::at(x + c);
      CROSSBOW_UNROLL
      for (int j = 0; j < width; ++j) {
        const float distance = sums[j].a * shape.share;
        means.values[j] = first[j] + distance;
        const float variance = sums[j].b * shape.share - distance * distance;
        variances.values[j] = variance < 0 ? 0 : variance;  // a NaN stays
      }
    } else {
      means = Floats::at(running_mean + c);
      variances = Floats::at(running_variance + c);
    }
    Floats inverse_stds;
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) {
      inverse_stds.values[j] = inverse_sqrt(variances[j] + epsilon);
      factors.values[j] *= inverse_stds[j];
    }
    if (sums && shape.is_first(t)) {
      means.store(batch_mean + c);
      inverse_stds.store(batch_inverse_std + c);
      follow(means, running_mean + c);
      follow(variances, running_variance + c);
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
            result.values[j] = activation(value);
          }
          result.store(y + i);
        });
  }

 private:
  template <int width>
  CROSSBOW_GPU void follow(const Packet<float, width>& now, float* running) const {
    auto values = Packet<float, width>::at(running);
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) {
      const float kept = momentum == 0 ? 0 : momentum * values[j];  // not 0·∞
      values.values[j] = kept + (1 - momentum) * now[j];
    }
    values.store(running);
  }
};

/// With g = dy·activation'(y) and x̂ = (x − mean)·inverse_std, sums over a channel's m elements:
/// dshift = Σg, dscale = Σ g·x̂, dx = scale·inverse_std·(g − dshift/m − x̂·dscale/m).
template <typename T, typename A>
struct Gradient {
  A activation;
  Channels shape;
  const T *dy, *x;
  const float *scale, *shift, *mean, *inverse_std;
  const T* y;  // null: by x
  T* dx;
  float *dscale, *dshift;
  T* dresidual;

  /// What elements of the thread's channels have in common.
  template <int width>
  struct Common {
    Packet<float, width> mean, inverse_std, scale, shift;
  };
  template <int width>
  CROSSBOW_GPU Common<width> common(const Thread& t) const {
    using Floats = Packet<float, width>;
    const int c = shape.channel(t);
    return {Floats::at(mean + c), Floats::at(inverse_std + c), Floats::at(scale + c),
            Floats::at(shift + c)};
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
    const float output =
        y ? loaded.y[j] : common.scale[j] * loaded.normalised(common, j) + common.shift[j];
    return loaded.dy[j] * activation.derivative(output);
  }

  template <int width>
  CROSSBOW_GPU void add_up(const Thread& t, Pair (&sums)[width]) const {
    const auto common = this->common<width>(t);
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
  CROSSBOW_GPU void apply(const Thread& t, const Pair* sums) const {
    const auto common = this->common<width>(t);
    Packet<float, width> all_dscale, all_dshift;
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) {
      all_dscale.values[j] = sums[j].a;
      all_dshift.values[j] = sums[j].b;
    }
    if (shape.is_first(t)) {
      all_dscale.store(dscale + shape.channel(t));
      all_dshift.store(dshift + shape.channel(t));
    }
    shape.for_packets(
        t, [&](int64_t i) { return load<width>(i); },  // before dx, which may lie in dy's place
        [&](int64_t i, const Loaded<width>& loaded) {
          Packet<T, width> result, gradients;
          CROSSBOW_UNROLL
          for (int j = 0; j < width; ++j) {
            const float gradient = g(loaded, common, j);
            const float sum = all_dshift[j] + loaded.normalised(common, j) * all_dscale[j];
            result.values[j] =
                common.scale[j] * common.inverse_std[j] * (gradient - sum * shape.share);
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
  const Channels shape = channels_of(x.shape, context, attributes.training);
  PreparedKernel kernel = prepared({x, c, c, c, c}, {x, c, c}, shape.scratch_bytes());
  if (context.node.inputs.size() > 5) kernel.inputs.push_back(x);
  kernel.outputs.resize(context.node.outputs.size());
  kernel.bind = bind_storage(x.dtype, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return with_activation(attributes.activation, [&](auto activation) -> Call {
      const bool training = attributes.training;
      const Normalise<T, decltype(activation)> normalise{
          attributes.epsilon,
          attributes.momentum,
          activation,
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
      };
      return [=, scratch = o.scratch](const Step&) {
        if (training) return sum_and_apply(normalise, scratch);
        apply(normalise);
      };
    });
  });
  return kernel;
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout x = input_layout(context, 1), c = plain_f32({x.shape[1]});
  const auto& attributes = context.node.attrs<BatchNormGradAttributes>();
  const Channels shape = channels_of(x.shape, context);
  PreparedKernel kernel = prepared({x, x, c, c, c, c, x}, {x, c, c, x}, shape.scratch_bytes());
  kernel.inputs.resize(context.node.inputs.size());
  kernel.outputs.resize(context.node.outputs.size());
  kernel.bind = bind_storage(x.dtype, [=](auto t, const Operands& o) {
    using T = decltype(t);
    return with_activation(attributes.activation, [&](auto activation) -> Call {
      const Gradient<T, decltype(activation)> gradient{
          activation,
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
      };
      return [=, scratch = o.scratch](const Step&) { sum_and_apply(gradient, scratch); };
    });
  });
  return kernel;
}

const RegisterKernel kForward{kDevice, "batch_norm", prepare};
const RegisterKernel kGrad{kDevice, "batch_norm_grad", prepare_grad};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
