// What the kernels made of vector loops have in common when they are prepared.
#pragma once

#include <fmt/format.h>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/panels.h"
#include "kernels/kernel.h"

namespace crossbow {

template <typename T>
const TypedLoops<T>& typed_loops() {
  if constexpr (std::is_same_v<T, float>)
    return loops().f32;
  else
    return loops().bf16;
}

/// Calls f(T{}) with the type in which a layout's elements are stored, float or Bf16.
template <typename F>
auto with_storage(const Layout& layout, const F& f) {
  return layout.dtype == DType::bf16 ? f(Bf16{}) : f(float{});
}

inline Layout plain_f32(const Shape& shape) {
  return Layout::plain(shape, DType::f32);
}

/// The offered layout of input i if channel-wise loops understand it, else row-major.
Layout channelwise_layout(const PrepareContext& context, size_t i);

inline std::string loops_implementation() {
  return fmt::format("loops:{}", loops().name);
}

template <typename T>
T* as(void* p) {
  return static_cast<T*>(p);
}

}  // namespace crossbow
