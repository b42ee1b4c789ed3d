#include "ops/dropout.h"

#include <cmath>

#include "core/rng.h"
#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

/// Of x's shape and dtype, row-major: randomness is defined by an element's place in its row.
Layout row_major(const PrepareContext& context) {
  const Layout offered = context.offered_or_plain(0);
  return Layout::plain(offered.shape, offered.dtype);
}

/// The share of x that one loop call handles: part of a row, or all of it.
struct Rows {
  int64_t count, length, parts;

  Rows(const Shape& x, int threads)
      : count(x[0]), length(x.elements_from(1)), parts(count % threads == 0 ? 1 : threads) {}
  /// Calls f(row, begin, end) for all parts of all rows; parts begin at multiples of 4.
  template <typename F>
  void for_each(int threads, const F& f) const {
    const auto cut = [&](int64_t i) { return i == parts ? length : length * i / parts / 4 * 4; };
    const int team = useful_threads(threads, count * length);
    parallel_for(team, count * parts,
                 [&](int64_t i) { f(i / parts, cut(i % parts), cut(i % parts + 1)); });
  }
};

DropoutArgs arguments(const DropoutAttributes& a) {
  DropoutArgs args{};
  args.threshold = static_cast<uint32_t>(std::ceil(a.probability * 0x1p32));
  args.scale = 1 / (1 - a.probability);
  return args;
}

/// As dropout_random in ops/dropout.h counts.
void set_position(DropoutArgs& args, const DropoutAttributes& a, const Step& step, int64_t row,
                  int64_t element) {
  const uint64_t sample = step.first_sample + static_cast<uint64_t>(row);
  args.first_quad = static_cast<uint32_t>(element / 4);
  args.counter[0] = step.epoch;
  args.counter[1] = static_cast<uint32_t>(sample);
  args.counter[2] = static_cast<uint32_t>(sample >> 32) | a.layer << 16;
  const auto key = Rng::key(step.seed, Purpose::dropout);
  args.key[0] = key[0];
  args.key[1] = key[1];
}

template <typename T>
Call bind(const DropoutAttributes& a, const Rows& rows, int threads, const Operands& o) {
  return [=, x = as<T>(o.inputs[0]), y = as<T>(o.outputs[0]),
          mask = as<uint8_t>(o.outputs[1])](const Step& step) {
    rows.for_each(threads, [&](int64_t row, int64_t begin, int64_t end) {
      DropoutArgs args = arguments(a);
      set_position(args, a, step, row, begin);
      const int64_t at = row * rows.length + begin;
      typed_loops<T>().dropout(args, x + at, y + at, mask + at, end - begin);
    });
  };
}

PreparedKernel prepare(const PrepareContext& context) {
  const Layout x = row_major(context);
  PreparedKernel kernel{{x}, {x, x.with_dtype(DType::u8)}};
  kernel.implementation = loops_implementation();
  kernel.bind = [=, a = context.node.attrs<DropoutAttributes>(),
                 rows = Rows(x.shape, context.threads), threads = context.threads](Operands o) {
    return with_storage(x, [&](auto t) { return bind<decltype(t)>(a, rows, threads, o); });
  };
  return kernel;
}

template <typename T>
Call bind_grad(float scale, int64_t n, int threads, const Operands& o) {
  return [=, dy = as<T>(o.inputs[0]), mask = as<uint8_t>(o.inputs[1]),
          dx = as<T>(o.outputs[0])](const Step&) {
    parallel_ranges(threads, n, [&](int64_t begin, int64_t end) {
      typed_loops<T>().dropout_grad(dy + begin, mask + begin, scale, dx + begin, end - begin);
    });
  };
}

PreparedKernel prepare_grad(const PrepareContext& context) {
  const Layout dy = row_major(context);
  PreparedKernel kernel{{dy, dy.with_dtype(DType::u8)}, {dy}};
  kernel.implementation = loops_implementation();
  kernel.bind = [=, scale = arguments(context.node.attrs<DropoutAttributes>()).scale,
                 threads = context.threads](Operands o) {
    return with_storage(
        dy, [&](auto t) { return bind_grad<decltype(t)>(scale, dy.elements(), threads, o); });
  };
  return kernel;
}

const RegisterKernel kForward{"cpu", "dropout", prepare};
const RegisterKernel kBackward{"cpu", "dropout_grad", prepare_grad};

}  // namespace
}  // namespace crossbow
