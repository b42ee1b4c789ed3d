#include "ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

enum Input { kX, kScale, kShift, kRunningMean, kRunningVariance, kResidual };

Rectifier rectifier_of(Activation activation) {
  if (activation == Activation::relu) return Rectifier::relu;
  return activation == Activation::relu6 ? Rectifier::relu6 : Rectifier::none;
}

/// `has_output`: the gradient's kernel sees y.
Mask mask_of(Activation activation, bool has_output) {
  if (activation == Activation::none) return Mask::none;
  if (activation == Activation::relu6) return Mask::input6;
  return has_output ? Mask::output : Mask::input;
}

/// One training run of the node: the statistics of a panel and then, while the cache holds it, its
/// normalisation.
template <typename T>
struct Training {
  BatchNormAttributes attributes;
  Panels panels;
  Operands o;

  const float* f32(size_t i) const { return as<float>(o.inputs[i]); }
  const T* x() const { return as<T>(o.inputs[kX]); }
  const T* residual() const {
    return o.inputs.size() > kResidual ? as<T>(o.inputs[kResidual]) : nullptr;
  }

  /// Sums are taken of differences to each channel's first element, so that a mean far from zero
  /// does not swamp the variance.
  LaneValues origin(int64_t panel) const {
    const auto at = panels.extent(panel);
    LaneValues origin{};
    for (int64_t c = 0; c < at.channels; ++c) origin[c] = to_float(x()[at.offset + c]);
    panels.repeat(origin);
    return origin;
  }

  void reduce(int64_t panel, int64_t slice) const {
    double* sums = panels.slice_sums(o.scratch, panel, slice);
    std::fill_n(sums, 2 * kMaxLanes, 0.0);
    const LaneValues from = origin(panel);
    panels.for_parts(panel, slice, [&](const Panel& part, int64_t offset) {
      typed_loops<T>().moments(part, x() + offset, from.data(), sums);
    });
  }

  void apply(int64_t panel, int64_t slice) const {
    const auto at = panels.extent(panel);
    const auto sums = panels.channel_sums(o.scratch, panel);
    const LaneValues from = origin(panel);
    const double share = 1 / static_cast<double>(panels.values_per_channel());
    LaneValues mean{}, variance{};
    for (int64_t c = 0; c < at.channels; ++c) {
      const double difference = sums.first[c] * share;
      mean[c] = static_cast<float>(from[c] + difference);
      variance[c] =
          static_cast<float>(std::max(sums.second[c] * share - difference * difference, 0.0));
    }
    const LaneValues inverse_std = normalise(panel, slice, mean, variance);
    if (slice != 0) return;
    for (int64_t c = 0, channel = at.first_channel; c < at.channels; ++c, ++channel) {
      as<float>(o.outputs[1])[channel] = mean[c];
      as<float>(o.outputs[2])[channel] = inverse_std[c];
      move(as<float>(o.inputs[kRunningMean])[channel], mean[c]);
      move(as<float>(o.inputs[kRunningVariance])[channel], variance[c]);
    }
  }

  void move(float& running, float batch) const {
    const float kept = attributes.momentum == 0 ? 0 : attributes.momentum * running;  // not 0·∞
    running = kept + (1 - attributes.momentum) * batch;
  }

  /// Returns 1/sqrt(variance + epsilon).
  LaneValues normalise(int64_t panel, int64_t slice, LaneValues mean,
                       const LaneValues& variance) const {
    const auto at = panels.extent(panel);
    LaneValues inverse_std{}, factor{}, shift{};
    for (int64_t c = 0; c < at.channels; ++c) {
      inverse_std[c] = 1 / std::sqrt(variance[c] + attributes.epsilon);
      factor[c] = f32(kScale)[at.first_channel + c] * inverse_std[c];
      shift[c] = f32(kShift)[at.first_channel + c];
    }
    for (LaneValues* values : {&mean, &factor, &shift}) panels.repeat(*values);
    panels.for_parts(panel, slice, [&](const Panel& part, int64_t offset) {
      typed_loops<T>().normalise(part, {x() + offset, residual() ? residual() + offset : nullptr,
                                        as<T>(o.outputs[0]) + offset, mean.data(), factor.data(),
                                        shift.data(), rectifier_of(attributes.activation)});
    });
    return inverse_std;
  }

  void infer(int64_t panel, int64_t slice) const {
    const auto at = panels.extent(panel);
    LaneValues mean{}, variance{};
    std::copy_n(f32(kRunningMean) + at.first_channel, at.channels, mean.begin());
    std::copy_n(f32(kRunningVariance) + at.first_channel, at.channels, variance.begin());
    normalise(panel, slice, mean, variance);
  }

  void operator()(const Step&) const {
    if (attributes.training) {
      panels.two_passes([&](int64_t p, int64_t s) { reduce(p, s); },
                        [&](int64_t p, int64_t s) { apply(p, s); });
    } else {
      panels.one_pass([&](int64_t p, int64_t s) { infer(p, s); });
    }
  }
};

PreparedKernel prepare(const PrepareContext& context) {
  const auto& attributes = context.node.attrs<BatchNormAttributes>();
  const Layout x = channelwise_layout(context, kX);
  const Layout channels = plain_f32({x.shape[1]});
  const Panels panels(channel_view(x), context.threads);
  PreparedKernel kernel{{x, channels, channels, channels, channels}, {x}};
  if (context.node.inputs.size() > kResidual) kernel.inputs.push_back(x);
  if (attributes.training) kernel.outputs.insert(kernel.outputs.end(), 2, channels);
  kernel.scratch_bytes = panels.scratch_bytes();
  kernel.implementation = loops_implementation();
  kernel.bind = [=](Operands o) {
    return with_storage(x, [&](auto t) -> Call {
      return Training<decltype(t)>{attributes, panels, o};
    });
  };
  return kernel;
}

enum GradInput { kDy, kGradX, kGradScale, kGradShift, kMean, kInverseStd, kY };

template <typename T>
struct Gradient {
  Mask mask;
  Panels panels;
  Operands o;

  /// The loops' arguments for one panel, with the values of its lanes.
  struct Arguments {
    LaneValues mean{}, factor{}, shift{}, slope{}, constant{};
  };

  const float* f32(size_t i) const { return as<float>(o.inputs[i]); }

  Arguments arguments(int64_t panel) const {
    const auto at = panels.extent(panel);
    Arguments a;
    for (int64_t c = 0, channel = at.first_channel; c < at.channels; ++c, ++channel) {
      a.mean[c] = f32(kMean)[channel];
      a.factor[c] = f32(kGradScale)[channel] * f32(kInverseStd)[channel];
      a.shift[c] = f32(kGradShift)[channel];
    }
    for (LaneValues* values : {&a.mean, &a.factor, &a.shift}) panels.repeat(*values);
    return a;
  }

  NormaliseGradArgs<T> loop_arguments(int64_t offset, const Arguments& a) const {
    const auto in = [&](size_t i) -> const T* {
      return i < o.inputs.size() && o.inputs[i] ? as<T>(o.inputs[i]) + offset : nullptr;
    };
    const bool residual = o.outputs.size() > 3;
    return {mask,
            in(kDy),
            in(kGradX),
            in(kY),
            as<T>(o.outputs[0]) + offset,
            residual ? as<T>(o.outputs[3]) + offset : nullptr,
            a.mean.data(),
            a.factor.data(),
            a.shift.data(),
            a.slope.data(),
            a.constant.data()};
  }

  void reduce(int64_t panel, int64_t slice) const {
    double* sums = panels.slice_sums(o.scratch, panel, slice);
    std::fill_n(sums, 2 * kMaxLanes, 0.0);
    const Arguments a = arguments(panel);
    panels.for_parts(panel, slice, [&](const Panel& part, int64_t offset) {
      typed_loops<T>().normalise_grad_sums(part, loop_arguments(offset, a), sums);
    });
  }

  /// dx = factor·(dy' − mean of dy' − x̂·mean of dy'·x̂).
  void apply(int64_t panel, int64_t slice) const {
    const auto at = panels.extent(panel);
    const auto sums = panels.channel_sums(o.scratch, panel);
    const double share = 1 / static_cast<double>(panels.values_per_channel());
    Arguments a = arguments(panel);
    LaneValues dscale;
    for (int64_t c = 0; c < at.channels; ++c) {
      const double inverse_std = f32(kInverseStd)[at.first_channel + c];
      const double sum = sums.second[c] * inverse_std;
      dscale[c] = static_cast<float>(sum);
      a.slope[c] = static_cast<float>(-a.factor[c] * inverse_std * sum * share);
      a.constant[c] = static_cast<float>(-a.factor[c] * sums.first[c] * share);
    }
    if (slice == 0) {
      std::copy_n(dscale.begin(), at.channels, as<float>(o.outputs[1]) + at.first_channel);
      std::copy_n(sums.first.begin(), at.channels, as<float>(o.outputs[2]) + at.first_channel);
    }
    for (LaneValues* values : {&a.slope, &a.constant}) panels.repeat(*values);
    panels.for_parts(panel, slice, [&](const Panel& part, int64_t offset) {
      typed_loops<T>().normalise_grad(part, loop_arguments(offset, a));
    });
  }

  void operator()(const Step&) const {
    panels.two_passes([&](int64_t p, int64_t s) { reduce(p, s); },
                      [&](int64_t p, int64_t s) { apply(p, s); });
  }
};

PreparedKernel prepare_grad(const PrepareContext& context) {
  const auto& attributes = context.node.attrs<BatchNormGradAttributes>();
  const Layout x = channelwise_layout(context, kGradX);
  const Layout channels = plain_f32({x.shape[1]});
  const Panels panels(channel_view(x), context.threads);
  PreparedKernel kernel{{x, x, channels, channels, channels, channels, x}, {x, channels, channels}};
  kernel.inputs.resize(context.node.inputs.size());
  if (attributes.residual) kernel.outputs.push_back(x);
  kernel.scratch_bytes = panels.scratch_bytes();
  kernel.implementation = loops_implementation();
  const Mask mask = mask_of(attributes.activation, context.node.has_input(kY));
  kernel.bind = [=](Operands o) {
    return with_storage(x, [&](auto t) -> Call { return Gradient<decltype(t)>{mask, panels, o}; });
  };
  return kernel;
}

const RegisterKernel kForward{"cpu", "batch_norm", prepare};
const RegisterKernel kBackward{"cpu", "batch_norm_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
