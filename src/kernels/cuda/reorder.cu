// Copies between layouts, none of which has blocks here, and between float and bf16.
#include "core/error.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

/// A tensor's strides by dimension; those in front that it lacks have one index.
struct Strides {
  int64_t sizes[4], steps[4];

  explicit Strides(const Layout& layout) {
    const int missing = 4 - layout.shape.rank();
    for (int d = 0; d < 4; ++d) {
      sizes[d] = d < missing ? 1 : layout.shape[d - missing];
      steps[d] = d < missing ? 0 : layout.strides[d - missing];
    }
  }
  /// Of the i-th element in row-major order.
  CROSSBOW_GPU int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (int d = 3; d >= 0; --d) {
      at += i % sizes[d] * steps[d];
      i /= sizes[d];
    }
    return at;
  }
};

template <typename From, typename To>
struct Copy {
  Strides from_strides, to_strides;
  const From* from;
  To* to;

  CROSSBOW_GPU void operator()(int64_t i) const {
    to[to_strides.offset(i)] = from[from_strides.offset(i)];
  }
};

/// Where both sides have their elements in the same order.
template <typename From, typename To>
struct Cast {
  const From* from;
  To* to;

  CROSSBOW_GPU void operator()(int64_t i) const { to[i] = from[i]; }
};

PreparedKernel prepare(const Layout& from, const Layout& to, int) {
  const auto known = [](const Layout& layout) {
    const bool numbers = layout.dtype == DType::f32 || layout.dtype == DType::bf16;
    return numbers && layout.blocks.empty() && layout.shape.rank() <= 4;
  };
  if (!known(from) || !known(to)) fail("{} cannot convert {} to {}", kDevice, from.str(), to.str());
  PreparedKernel kernel = prepared({from}, {to});
  kernel.bind = [=, n = from.elements()](const Operands& o) {
    return with_storage(from.dtype, [&](auto f) {
      return with_storage(to.dtype, [&](auto t) -> Call {
        using From = decltype(f);
        using To = decltype(t);
        if (from.strides == to.strides) {
          const Cast<From, To> cast{as<From>(o.inputs[0]), as<To>(o.outputs[0])};
          return [=](const Step&) { for_each(n, cast); };
        }
        const Copy<From, To> copy{Strides(from), Strides(to), as<From>(o.inputs[0]),
                                  as<To>(o.outputs[0])};
        return [=](const Step&) { for_each(n, copy); };
      });
    });
  };
  return kernel;
}

const bool kRegistered = [] {
  KernelRegistry::of(kDevice).set_reorder(prepare);
  return true;
}();

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
