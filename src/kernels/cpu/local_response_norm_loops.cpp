#include "kernels/cpu/local_response_norm_loops.h"

#include <cmath>

#include "kernels/cpu/prepare.h"
#include "kernels/cpu/team.h"
#include "ops/local_response_norm.h"

namespace crossbow {
namespace {

/// Maps one after the other, as row-major images have them.
struct Maps {
  int64_t images, channels, pixels, half;
  int threads;

  Maps(const PrepareContext& c, const Layout& x)
      : images(x.shape[0]),
        channels(x.shape[1]),
        pixels(x.shape.elements_from(2)),
        half(c.node.attrs<LocalResponseNormAttributes>().size / 2),
        threads(useful_threads(c.threads, x.elements())) {}

  /// f(map, its first neighbour, its last one).
  template <typename F>
  void for_each(const F& f) const {
    parallel_for(threads, images * channels, [&](int64_t map) {
      const int64_t c = map % channels;
      f(map, map - std::min(c, half), map + std::min(channels - 1 - c, half));
    });
  }
  /// Σ value(element) over the neighbours of pixel p.
  template <typename F>
  float sum(int64_t first, int64_t last, int64_t p, const F& value) const {
    float total = 0;
    for (int64_t map = first; map <= last; ++map) total += value(map * pixels + p);
    return total;
  }
};

template <typename T>
Call bind(const LocalResponseNormAttributes& a, const Maps& maps, const Operands& o) {
  const float factor = a.alpha / static_cast<float>(a.size);
  return [=, k = a.k, beta = a.beta, x = as<T>(o.inputs[0]), y = as<T>(o.outputs[0]),
          scale = as<float>(o.outputs[1])](const Step&) {
    maps.for_each([&](int64_t map, int64_t first, int64_t last) {
      for (int64_t p = 0; p < maps.pixels; ++p) {
        const int64_t i = map * maps.pixels + p;
        scale[i] = k + factor * maps.sum(first, last, p, [&](int64_t j) {
          const float value = x[j];
          return value * value;
        });
        y[i] = x[i] * std::pow(scale[i], -beta);
      }
    });
  };
}

template <typename T>
Call bind_grad(const LocalResponseNormAttributes& a, const Maps& maps, const Operands& o) {
  const float factor = 2 * a.alpha * a.beta / static_cast<float>(a.size);
  return [=, beta = a.beta, dy = as<T>(o.inputs[0]), x = as<T>(o.inputs[1]),
          scale = as<float>(o.inputs[2]), dx = as<T>(o.outputs[0])](const Step&) {
    maps.for_each([&](int64_t map, int64_t first, int64_t last) {
      for (int64_t p = 0; p < maps.pixels; ++p) {
        const int64_t i = map * maps.pixels + p;
        const float sum = maps.sum(first, last, p, [&](int64_t j) {
          return dy[j] * x[j] * std::pow(scale[j], -beta - 1);
        });
        dx[i] = dy[i] * std::pow(scale[i], -beta) - factor * x[i] * sum;
      }
    });
  };
}

/// make(T{}, operands) with T for the type of the elements.
template <typename Make>
PreparedKernel prepared(const PrepareContext& c, std::vector<Layout> inputs,
                        std::vector<Layout> outputs, const Make& make) {
  PreparedKernel kernel{std::move(inputs), std::move(outputs)};
  kernel.implementation = "loops";
  kernel.bind = [make, precision = c.precision](const Operands& o) {
    return precision == DType::bf16 ? make(bf16{}, o) : make(float{}, o);
  };
  return kernel;
}

}  // namespace

PreparedKernel prepare_response_by_loops(const PrepareContext& c) {
  const Layout x = Layout::plain(c.input_type(0).shape, c.precision);
  const auto& a = c.node.attrs<LocalResponseNormAttributes>();
  return prepared(
      c, {x}, {x, x.with_dtype(DType::f32)},
      [a, maps = Maps(c, x)](auto t, const Operands& o) { return bind<decltype(t)>(a, maps, o); });
}

PreparedKernel prepare_response_grad_by_loops(const PrepareContext& c) {
  const Layout x = Layout::plain(c.input_type(1).shape, c.precision);
  const auto& a = c.node.attrs<LocalResponseNormAttributes>();
  return prepared(c, {x, x, x.with_dtype(DType::f32)}, {x},
                  [a, maps = Maps(c, x)](auto t, const Operands& o) {
                    return bind_grad<decltype(t)>(a, maps, o);
                  });
}

}  // namespace crossbow
