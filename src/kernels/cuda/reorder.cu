// Copies between layouts, and between float and bf16. Blocks are those of tensors that a CPU's
// programs share.
#include "core/error.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/strides.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

template <typename From, typename To>
struct Copy {
  Strides from_strides, to_strides;
  const From* from;
  To* to;

  CROSSBOW_GPU void operator()(int64_t i) const {
    const auto at = static_cast<int32_t>(i);
    to[to_strides.offset(at)] = from[from_strides.offset(at)];
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
  if (!Strides::know(from) || !Strides::know(to)) {
    fail("{} cannot convert {} to {}", kDevice, from.str(), to.str());
  }
  PreparedKernel kernel = prepared({from}, {to});
  // Padding stays as it is.
  kernel.bind = [=, n = from.shape.elements()](const Operands& o) {
    return with_storage(from.dtype, [&](auto f) {
      return with_storage(to.dtype, [&](auto t) -> Call {
        using From = decltype(f);
        using To = decltype(t);
        if (from.blocks.empty() && to.blocks.empty() && from.strides == to.strides) {
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

/// Of several tensors; a block has a piece of one.
template <typename From, typename To>
struct Casts {
  static constexpr size_t kMost = 64;
  static constexpr int64_t kPiece = 8 * kThreads;

  int64_t first_blocks[kMost + 1];
  Cast<From, To> casts[kMost];
  int64_t sizes[kMost];

  CROSSBOW_GPU void operator()(const Thread& t) const {
    int of = 0;
    while (first_blocks[of + 1] <= t.block()) ++of;
    const int64_t begin = (t.block() - first_blocks[of]) * kPiece;
    const int64_t end = smaller(begin + kPiece, sizes[of]);
    for (int64_t i = begin + t.rank(); i < end; i += t.threads()) casts[of](i);
  }
};

/// From the first-th tensor on, as many as one launch takes.
template <typename From, typename To>
Casts<From, To> casts_from(size_t first, const std::vector<int64_t>& sizes, const Operands& o) {
  Casts<From, To> casts{};
  for (size_t i = 0; i < casts.kMost; ++i) {
    const bool exists = first + i < sizes.size();
    casts.sizes[i] = exists ? sizes[first + i] : 0;
    const int64_t blocks = (casts.sizes[i] + casts.kPiece - 1) / casts.kPiece;
    casts.first_blocks[i + 1] = casts.first_blocks[i] + blocks;
    if (exists) casts.casts[i] = {as<From>(o.inputs[first + i]), as<To>(o.outputs[first + i])};
  }
  return casts;
}

PreparedKernel prepare_casts(std::vector<Layout> from, std::vector<Layout> to) {
  std::vector<int64_t> sizes;
  for (const Layout& layout : from) sizes.push_back(layout.elements());
  const DType from_type = from[0].dtype, to_type = to[0].dtype;
  PreparedKernel kernel = prepared(std::move(from), std::move(to));
  kernel.bind = [=](const Operands& o) {
    return with_storage(from_type, [&](auto f) {
      return with_storage(to_type, [&](auto t) -> Call {
        using All = Casts<decltype(f), decltype(t)>;
        std::vector<All> launches;
        for (size_t first = 0; first < sizes.size(); first += All::kMost) {
          launches.push_back(casts_from<decltype(f), decltype(t)>(first, sizes, o));
        }
        return [=](const Step&) {
          for (const All& all : launches) launch(Grid{all.first_blocks[All::kMost]}, all);
        };
      });
    });
  };
  return kernel;
}

const bool kRegistered = [] {
  KernelRegistry::of(kDevice).set_reorder(prepare);
  KernelRegistry::of(kDevice).set_casts(prepare_casts);
  return true;
}();

}  // namespace
}  // namespace crossbow::CROSSBOW_GRID
