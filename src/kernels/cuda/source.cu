#include "graph/source.h"

#include "core/error.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/strides.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

struct Input {
  const Step* step;
  int slot;
  int32_t* y;  // f32 or i32: what has four bytes

  CROSSBOW_GPU void operator()(int64_t i) const {
    y[i] = static_cast<const int32_t*>(step->inputs[static_cast<size_t>(slot)])[i];
  }
};

/// Of floats that are to lie elsewhere or as another type.
template <typename T>
struct Converted {
  const Step* step;
  int slot;
  Strides strides;
  T* y;

  CROSSBOW_GPU void operator()(int64_t i) const {
    y[strides.offset(static_cast<int32_t>(i))] =
        static_cast<const float*>(step->inputs[static_cast<size_t>(slot)])[i];
  }
};

/// Four neighbours a thread: a byte each would be a quarter of what a warp can fetch at once from
/// the host's memory.
template <typename T>
struct Pixels {
  static constexpr int32_t kOfThread = 4;
  const Step* step;
  int slot;
  Normalisation normalisation;
  int32_t count, plane, channels;
  Strides strides;
  T* y;

  CROSSBOW_GPU void operator()(int64_t thread) const {
    const auto* const from = static_cast<const uint8_t*>(step->inputs[static_cast<size_t>(slot)]);
    const int32_t first = static_cast<int32_t>(thread) * kOfThread;
    const int32_t left = count - first;
    const bool whole =
        left >= kOfThread && reinterpret_cast<uintptr_t>(from) % sizeof(uint32_t) == 0;
    const uint32_t word = whole ? reinterpret_cast<const uint32_t*>(from)[thread] : 0;
    CROSSBOW_ROLLED
    for (int32_t j = 0; j < kOfThread && j < left; ++j) {
      const int32_t i = first + j;
      const uint8_t pixel = whole ? static_cast<uint8_t>(word >> 8 * j) : from[i];
      const auto channel = static_cast<size_t>(i / plane % channels);
      y[strides.offset(i)] = normalisation.of(pixel, channel);
    }
  }
};

struct Fill {
  float value;
  float* y;

  CROSSBOW_GPU void operator()(int64_t i) const { y[i] = value; }
};

PreparedKernel prepare_pixels(const PrepareContext& context) {
  const auto& a = context.node.attrs<InputAttributes>();
  const Shape& shape = context.node.outputs[0].shape;
  const std::optional<Layout>& wish = context.required[0];
  const Layout layout = wish && Strides::know(*wish) ? *wish : plain_f32(shape);
  if (!Strides::know(layout)) fail("a batch of pixels of shape {} is too large", shape.str());
  PreparedKernel kernel = prepared({}, {layout});
  kernel.bind = [slot = a.slot, normalisation = *a.normalisation, shape,
                 layout](const Operands& o) {
    return with_storage(layout.dtype, [&](auto t) -> Call {
      using T = decltype(t);
      const auto count = static_cast<int32_t>(shape.elements());
      const auto plane = static_cast<int32_t>(shape[2] * shape[3]);
      return [=, channels = static_cast<int32_t>(shape[1]), strides = Strides(layout),
              y = as<T>(o.outputs[0])](const Step& step) {
        constexpr int32_t kOfThread = Pixels<T>::kOfThread;
        for_each((int64_t{count} + kOfThread - 1) / kOfThread,
                 Pixels<T>{&step, slot, normalisation, count, plane, channels, strides, y});
      };
    });
  };
  return kernel;
}

PreparedKernel prepare_input(const PrepareContext& context) {
  if (context.node.attrs<InputAttributes>().normalisation) return prepare_pixels(context);
  const TensorType& type = context.node.outputs[0];
  const Layout plain = Layout::plain(type.shape, type.dtype);
  const int slot = context.node.attrs<InputAttributes>().slot;
  const std::optional<Layout>& wish = context.required[0];
  if (wish && *wish != plain && Strides::know(plain) && Strides::know(*wish)) {
    PreparedKernel kernel = prepared({}, {*wish});
    kernel.bind = [=, n = plain.elements(), strides = Strides(*wish),
                   dtype = wish->dtype](const Operands& o) {
      return with_storage(dtype, [&](auto t) -> Call {
        using T = decltype(t);
        return [=, y = as<T>(o.outputs[0])](const Step& step) {
          for_each(n, Converted<T>{&step, slot, strides, y});
        };
      });
    };
    return kernel;
  }
  PreparedKernel kernel = prepared({}, {plain});
  kernel.bind = [slot, n = plain.elements()](const Operands& o) -> Call {
    return [=, y = as<int32_t>(o.outputs[0])](const Step& step) {
      for_each(n, Input{&step, slot, y});
    };
  };
  return kernel;
}

PreparedKernel prepare_fill(const PrepareContext& context) {
  const Layout y = plain_f32(context.node.outputs[0].shape);
  PreparedKernel kernel = prepared({}, {y});
  kernel.bind = [value = context.node.attrs<FillAttributes>().value,
                 n = y.elements()](const Operands& o) -> Call {
    return [=, y = as<float>(o.outputs[0])](const Step&) { for_each(n, Fill{value, y}); };
  };
  return kernel;
}

const RegisterKernel kInput{kDevice, "input", prepare_input};
const RegisterKernel kFill{kDevice, "fill", prepare_fill};

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
