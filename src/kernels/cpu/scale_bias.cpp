#include "ops/scale_bias.h"

#include <algorithm>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

constexpr LaneValues kZeros{};

/// A panel's values of a [C] vector, or `otherwise` where the vector is absent. Padded lanes get 0.
LaneValues lanes(const Panels& panels, int64_t panel, const void* vector, float otherwise) {
  const auto at = panels.extent(panel);
  LaneValues values{};
  for (int64_t c = 0; c < at.channels; ++c) {
    values[c] = vector ? static_cast<const float*>(vector)[at.first_channel + c] : otherwise;
  }
  panels.repeat(values);
  return values;
}

/// y = x·scale + bias for a slice of a panel, by the loop that normalises: its mean is 0.
template <typename T>
void scale_and_shift(const Panels& panels, int64_t panel, int64_t slice, const void* x,
                     const LaneValues& scale, const LaneValues& bias, void* y) {
  panels.for_parts(panel, slice, [&](const Panel& part, int64_t offset) {
    typed_loops<T>().normalise(
        part, {static_cast<const T*>(x) + offset, nullptr, static_cast<T*>(y) + offset,
               kZeros.data(), scale.data(), bias.data(), Rectifier::none});
  });
}

template <typename T>
Call bind(const Panels& panels, const Operands& o) {
  return [=](const Step&) {
    panels.one_pass([&](int64_t panel, int64_t slice) {
      scale_and_shift<T>(panels, panel, slice, o.inputs[0], lanes(panels, panel, o.inputs[1], 1),
                         lanes(panels, panel, o.inputs[2], 0), o.outputs[0]);
    });
  };
}

PreparedKernel prepare(const PrepareContext& context) {
  const Layout x = channelwise_layout(context, 0), channels = plain_f32({x.shape[1]});
  PreparedKernel kernel{{x, channels, channels}, {x}};
  kernel.implementation = loops_implementation();
  kernel.bind = [=, panels = Panels(channel_view(x), context.threads)](Operands o) {
    return with_storage(x, [&](auto t) { return bind<decltype(t)>(panels, o); });
  };
  return kernel;
}

template <typename T>
struct Gradient {
  ScaleBiasGradAttributes attributes;
  Panels panels;
  Operands o;  // dy, x, scale -> dx and what exists of dscale and dbias

  void reduce(int64_t panel, int64_t slice) const {
    double* sums = panels.slice_sums(o.scratch, panel, slice);
    std::fill_n(sums, 2 * kMaxLanes, 0.0);
    const T* dy = as<T>(o.inputs[0]);
    // Without a scale nobody needs Σ dy·x, and x is absent: dy stands in for it.
    const T* x = attributes.scale ? as<T>(o.inputs[1]) : dy;
    panels.for_parts(panel, slice, [&](const Panel& part, int64_t offset) {
      NormaliseGradArgs<T> args{Mask::none, dy + offset, x + offset};
      args.mean = args.factor = args.offset = kZeros.data();
      typed_loops<T>().normalise_grad_sums(part, args, sums);
    });
  }

  void apply(int64_t panel, int64_t slice) const {
    if (slice == 0) {
      const auto at = panels.extent(panel);
      const auto sums = panels.channel_sums(o.scratch, panel);
      const auto write = [&](size_t output, const auto& values) {
        std::copy_n(values.begin(), at.channels, as<float>(o.outputs[output]) + at.first_channel);
      };
      if (attributes.scale) write(1, sums.second);
      if (attributes.bias) write(attributes.scale ? 2 : 1, sums.first);
    }
    scale_and_shift<T>(panels, panel, slice, o.inputs[0], lanes(panels, panel, o.inputs[2], 1),
                       kZeros, o.outputs[0]);
  }

  void operator()(const Step&) const {
    panels.two_passes([&](int64_t p, int64_t s) { reduce(p, s); },
                      [&](int64_t p, int64_t s) { apply(p, s); });
  }
};

PreparedKernel prepare_grad(const PrepareContext& context) {
  const auto& attributes = context.node.attrs<ScaleBiasGradAttributes>();
  const Layout x = channelwise_layout(context, attributes.scale ? 1 : 0);
  const Layout channels = plain_f32({x.shape[1]});
  const Panels panels(channel_view(x), context.threads);
  PreparedKernel kernel{{x, x, channels}, {x}};
  kernel.outputs.resize(context.node.outputs.size(), channels);
  kernel.scratch_bytes = panels.scratch_bytes();
  kernel.implementation = loops_implementation();
  kernel.bind = [=](Operands o) {
    return with_storage(x, [&](auto t) -> Call {
      return Gradient<decltype(t)>{attributes, panels, o};
    });
  };
  return kernel;
}

const RegisterKernel kForward{"cpu", "scale_bias", prepare};
const RegisterKernel kBackward{"cpu", "scale_bias_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
