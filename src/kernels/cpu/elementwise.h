// Kernels that compute each element of the output from the same elements of the inputs: any layout
// will do as long as all tensors have the same.
#pragma once

#include <initializer_list>

#include "kernels/cpu/prepare.h"

namespace crossbow {

/// What the output must have, else the first of these inputs' offers.
inline Layout elementwise_layout(const PrepareContext& context,
                                 std::initializer_list<size_t> inputs) {
  if (context.required[0]) return *context.required[0];
  for (size_t i : inputs) {
    if (context.offered[i]) return *context.offered[i];
  }
  return context.offered_or_plain(*inputs.begin());
}

/// `loop(T{})` is the loop over elements stored as T.
template <typename Loop>
PreparedKernel prepare_unary(const PrepareContext& context, const Layout& layout, Loop loop) {
  PreparedKernel kernel{{layout}, {layout}};
  kernel.implementation = loops_implementation();
  kernel.bind = [=, n = layout.elements(), threads = context.threads](Operands o) {
    return with_storage(layout, [&](auto t) -> Call {
      using T = decltype(t);
      return [f = loop(t), n, threads, x = as<T>(o.inputs[0]),
              y = as<T>(o.outputs[0])](const Step&) {
        parallel_ranges(threads, n,
                        [&](int64_t begin, int64_t end) { f(x + begin, y + begin, end - begin); });
      };
    });
  };
  return kernel;
}

template <typename Loop>
PreparedKernel prepare_binary(const PrepareContext& context, const Layout& layout, Loop loop) {
  PreparedKernel kernel{{layout, layout}, {layout}};
  kernel.implementation = loops_implementation();
  kernel.bind = [=, n = layout.elements(), threads = context.threads](Operands o) {
    return with_storage(layout, [&](auto t) -> Call {
      using T = decltype(t);
      return [f = loop(t), n, threads, a = as<T>(o.inputs[0]), b = as<T>(o.inputs[1]),
              y = as<T>(o.outputs[0])](const Step&) {
        parallel_ranges(threads, n, [&](int64_t begin, int64_t end) {
          f(a + begin, b + begin, y + begin, end - begin);
        });
      };
    });
  };
  return kernel;
}

}  // namespace crossbow
