// What our kernels have in common when they are prepared. Activations lie with their channels last,
// so that each is a matrix [rows][channels]; all else is row-major.
#pragma once

#include "kernels/cuda/channels.h"

namespace crossbow::CROSSBOW_GRID {

template <typename T>
T* as(void* p) {
  return static_cast<T*>(p);
}

inline Layout activation_layout(const Shape& shape, DType dtype) {
  return shape.rank() > 2 ? Layout::channels_last(shape, dtype) : Layout::plain(shape, dtype);
}
inline Layout input_layout(const PrepareContext& context, size_t i) {
  return activation_layout(context.input_type(i).shape, context.precision);
}
inline Layout plain_f32(const Shape& shape) {
  return Layout::plain(shape, DType::f32);
}
inline Layout plain_i32(const Shape& shape) {
  return Layout::plain(shape, DType::i32);
}

/// Of an activation. `sums`: of its channels are needed.
inline Channels channels_of(const Shape& shape, const PrepareContext& context, bool sums = true) {
  const Target target{sums && has_clusters(context.device), context.crowded};
  return {shape.elements() / shape[1], shape[1], target};
}

/// Calls f(T{}) with the type in which the program stores activations, float or bf16.
template <typename F>
auto with_storage(DType dtype, const F& f) {
  if (dtype == DType::bf16) return f(bf16{});
  return f(float{});
}

/// Without a bind yet.
inline PreparedKernel prepared(std::vector<Layout> inputs, std::vector<Layout> outputs,
                               size_t scratch_bytes = 0) {
  return {std::move(inputs), std::move(outputs), scratch_bytes, "loops", {}};
}

/// make(T{}, operands) is a call, T the type that stores activations.
template <typename Make>
auto bind_storage(DType dtype, const Make& make) {
  return [=](const Operands& o) {
    return with_storage(dtype, [&](auto t) -> Call { return make(t, o); });
  };
}

/// make(T{}, operands) is a function of each of the elements that `each` has, and T stores.
template <typename Make>
PreparedKernel elementwise(std::vector<Layout> inputs, std::vector<Layout> outputs,
                           const Layout& each, const Make& make) {
  PreparedKernel kernel = prepared(std::move(inputs), std::move(outputs));
  kernel.bind = bind_storage(each.dtype, [=, n = each.elements()](auto t, const Operands& o) {
    return [n, f = make(t, o)](const Step&) { for_each(n, f); };
  });
  return kernel;
}

/// make(T{}, operands) is a kernel, which runs on one grid; T stores activations as `dtype`.
template <typename Make>
PreparedKernel on_grid(std::vector<Layout> inputs, std::vector<Layout> outputs, DType dtype,
                       const Grid& grid, const Make& make) {
  PreparedKernel kernel = prepared(std::move(inputs), std::move(outputs));
  kernel.bind = bind_storage(dtype, [=](auto t, const Operands& o) {
    return [grid, f = make(t, o)](const Step&) { launch(grid, f); };
  });
  return kernel;
}

/// make(T{}, operands) is a function of each of n elements, whose mean is the output.
template <typename Make>
PreparedKernel mean_of(std::vector<Layout> inputs, DType dtype, int64_t n, const Make& make) {
  PreparedKernel kernel =
      prepared(std::move(inputs), {plain_f32({})}, summing_blocks(n) * sizeof(float));
  kernel.bind = bind_storage(dtype, [=](auto t, const Operands& o) {
    return [n, f = make(t, o), scratch = as<float>(o.scratch), out = as<float>(o.outputs[0])](
               const Step&) { sum(n, f, 1 / static_cast<float>(n), scratch, out); };
  });
  return kernel;
}

}  // namespace crossbow::CROSSBOW_GRID
