#include "ops/batch_norm.h"

#include <cmath>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

enum Input { kX, kScale, kShift, kRunningMean, kRunningVariance, kResidual };

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
    LaneValues origin{};
    for (int64_t c = 0; c < panels.channels(panel); ++c) {
      origin[c] = to_float(x()[panels.offset(panel) + c]);
    }
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
    const auto sums = panels.channel_sums(o.scratch, panel);
    const LaneValues from = origin(panel);
    const double n = static_cast<double>(panels.values_per_channel());
    LaneValues mean{}, factor{}, shift{};
    for (int64_t c = 0, channel = panels.first_channel(panel); c < panels.channels(panel);
         ++c, ++channel) {
      const double difference = sums.first[c] / n;
      const double variance = std::max(sums.second[c] / n - difference * difference, 0.0);
      const double inverse_std = 1 / std::sqrt(variance + attributes.epsilon);
      mean[c] = static_cast<float>(from[c] + difference);
      factor[c] = static_cast<float>(f32(kScale)[channel] * inverse_std);
      shift[c] = f32(kShift)[channel];
      if (slice != 0) continue;
      as<float>(o.outputs[1])[channel] = mean[c];
      as<float>(o.outputs[2])[channel] = static_cast<float>(inverse_std);
      move(as<float>(o.inputs[kRunningMean])[channel], mean[c]);
      move(as<float>(o.inputs[kRunningVariance])[channel], static_cast<float>(variance));
    }
    normalise(panel, slice, mean, factor, shift);
  }

  void move(float& running, float batch) const {
    running = attributes.momentum * running + (1 - attributes.momentum) * batch;
  }

  void normalise(int64_t panel, int64_t slice, LaneValues& mean, LaneValues& factor,
                 LaneValues& shift) const {
    for (LaneValues* values : {&mean, &factor, &shift}) panels.repeat(*values);
    panels.for_parts(panel, slice, [&](const Panel& part, int64_t offset) {
      typed_loops<T>().normalise(part, {x() + offset, residual() ? residual() + offset : nullptr,
                                        as<T>(o.outputs[0]) + offset, mean.data(), factor.data(),
                                        shift.data(), attributes.relu});
    });
  }

  void infer(int64_t panel, int64_t slice) const {
    LaneValues mean{}, factor{}, shift{};
    for (int64_t c = 0, channel = panels.first_channel(panel); c < panels.channels(panel);
         ++c, ++channel) {
      mean[c] = f32(kRunningMean)[channel];
      factor[c] =
          f32(kScale)[channel] / std::sqrt(f32(kRunningVariance)[channel] + attributes.epsilon);
      shift[c] = f32(kShift)[channel];
    }
    normalise(panel, slice, mean, factor, shift);
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
    Arguments a;
    for (int64_t c = 0, channel = panels.first_channel(panel); c < panels.channels(panel);
         ++c, ++channel) {
      a.mean[c] = f32(kMean)[channel];
      a.factor[c] = f32(kGradScale)[channel] * f32(kInverseStd)[channel];
      a.shift[c] = f32(kGradShift)[channel];
    }
    for (LaneValues* values : {&a.mean, &a.factor, &a.shift}) panels.repeat(*values);
    return a;
  }

  NormaliseGradArgs<T> at(int64_t offset, const Arguments& a) const {
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
      typed_loops<T>().normalise_grad_sums(part, at(offset, a), sums);
    });
  }

  /// dx = factor·(dy' − mean of dy' − x̂·mean of dy'·x̂).
  void apply(int64_t panel, int64_t slice) const {
    const auto sums = panels.channel_sums(o.scratch, panel);
    const double n = static_cast<double>(panels.values_per_channel());
    Arguments a = arguments(panel);
    for (int64_t c = 0, channel = panels.first_channel(panel); c < panels.channels(panel);
         ++c, ++channel) {
      const double inverse_std = f32(kInverseStd)[channel];
      const double dscale = sums.second[c] * inverse_std;
      a.slope[c] = static_cast<float>(-a.factor[c] * inverse_std * dscale / n);
      a.constant[c] = static_cast<float>(-a.factor[c] * sums.first[c] / n);
      if (slice != 0) continue;
      as<float>(o.outputs[1])[channel] = static_cast<float>(dscale);
      as<float>(o.outputs[2])[channel] = static_cast<float>(sums.first[c]);
    }
    for (LaneValues* values : {&a.slope, &a.constant}) panels.repeat(*values);
    panels.for_parts(panel, slice, [&](const Panel& part, int64_t offset) {
      typed_loops<T>().normalise_grad(part, at(offset, a));
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
  Mask mask = Mask::none;
  if (attributes.relu) mask = context.node.has_input(kY) ? Mask::output : Mask::input;
  kernel.bind = [=](Operands o) {
    return with_storage(x, [&](auto t) -> Call { return Gradient<decltype(t)>{mask, panels, o}; });
  };
  return kernel;
}

const RegisterKernel kForward{"cpu", "batch_norm", prepare};
const RegisterKernel kBackward{"cpu", "batch_norm_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
