// The passes of batch normalisation over panels (loops.h). A panel's lanes are taken in columns of
// K vectors, whose per-lane arguments and sums stay in registers while the loop runs down the rows.
// Arguments are copied to local variables that a store to memory cannot change, for the same
// reason.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

/// K whole vectors, or (K is 1) the first `count` lanes of one.
template <int K, bool Part>
struct Column {
  int64_t first;  // lane
  int64_t count;

  template <typename T>
  F32 load(const T* row, int k) const {
    return Part ? load_part(row, count) : CROSSBOW_ISA::load(row + k * kLanes);
  }
  template <typename T>
  void store(T* row, int k, F32 v) const {
    Part ? store_part(row, v, count) : CROSSBOW_ISA::store(row + k * kLanes, v);
  }
};

/// Calls f(column) for the columns that make up the panel.
template <typename F>
void for_columns(const Panel& panel, F f) {
  int64_t first = 0;
  const auto left = [&] { return panel.lanes - first; };
  for (; left() >= 4 * kLanes; first += 4 * kLanes) f(Column<4, false>{first, 4 * kLanes});
  for (; left() >= 2 * kLanes; first += 2 * kLanes) f(Column<2, false>{first, 2 * kLanes});
  for (; left() >= kLanes; first += kLanes) f(Column<1, false>{first, kLanes});
  if (left() > 0) f(Column<1, true>{first, left()});
}

/// K vectors of per-lane arguments or sums.
template <int K>
struct Lanes {
  F32 v[K];

  Lanes() : v{} {}
  template <bool Part>
  Lanes(const Column<K, Part>& column, const float* from) {
    for (int k = 0; k < K; ++k) v[k] = column.load(from + column.first, k);
  }
};

/// Two sums a lane. f32 takes some 64 terms, then they move on to double.
template <int K>
struct Sums {
  static constexpr int kRows = 4 / K;            // in flight, to hide the additions' latency
  static constexpr int64_t kFlush = 64 * kRows;  // rows
  F32 first[kRows][K] = {}, second[kRows][K] = {};

  template <bool Part>
  void flush(const Column<K, Part>& column, double* sums) {
    for (int k = 0; k < K; ++k) {
      F32 a{}, b{};
      for (int r = 0; r < kRows; ++r) {
        a += first[r][k];
        b += second[r][k];
        first[r][k] = second[r][k] = F32{};
      }
      add(a, sums + column.first + k * kLanes, column.count);
      add(b, sums + column.first + k * kLanes + kMaxLanes, column.count);
    }
  }

  static void add(F32 v, double* to, int64_t count) {
    float values[kLanes];
    store(values, v);
    for (int64_t l = 0; l < (count < kLanes ? count : kLanes); ++l) to[l] += values[l];
  }
};

/// Runs `row(sums, offset, r)` over the panel's rows, where r says which of the sums' rows to use.
template <int K, bool Part, typename F>
void sum_rows(const Panel panel, const Column<K, Part> column, double* sums, F row) {
  Sums<K> partial;
  int64_t pending = 0;
  for (int64_t n = 0; n < panel.batch; ++n) {
    for (int64_t begin = 0; begin < panel.rows; begin += Sums<K>::kFlush) {
      const int64_t left = panel.rows - begin;
      const int64_t rows = left < Sums<K>::kFlush ? left : Sums<K>::kFlush;
      int64_t offset = n * panel.batch_stride + begin * panel.row_stride + column.first;
      int64_t i = 0;
      for (; i + Sums<K>::kRows <= rows; i += Sums<K>::kRows) {
        for (int r = 0; r < Sums<K>::kRows; ++r, offset += panel.row_stride) {
          row(partial, offset, r);
        }
      }
      for (; i < rows; ++i, offset += panel.row_stride) row(partial, offset, 0);
      pending += rows;
      if (pending < Sums<K>::kFlush) continue;
      partial.flush(column, sums);
      pending = 0;
    }
  }
  partial.flush(column, sums);
}

/// Runs `row(offset)` over the panel's rows, the last images first: the pass before this one went
/// through them in order, so the last are those that the cache still has.
template <int K, bool Part, typename F>
void each_row(const Panel panel, const Column<K, Part> column, F row) {
  for (int64_t n = panel.batch - 1; n >= 0; --n) {
    int64_t offset = n * panel.batch_stride + column.first;
    for (int64_t i = 0; i < panel.rows; ++i, offset += panel.row_stride) row(offset);
  }
}

template <typename T>
void moments(const Panel& panel, const T* x, const float* origin, double* sums) {
  for_columns(panel, [&]<int K, bool Part>(const Column<K, Part> column) {
    const Lanes<K> o(column, origin);
    sum_rows(panel, column, sums, [&](Sums<K>& s, int64_t offset, int r) {
      for (int k = 0; k < K; ++k) {
        const F32 d = column.load(x + offset, k) - o.v[k];
        s.first[r][k] += d;
        s.second[r][k] += d * d;
      }
    });
  });
}

template <bool residual, bool rectify, typename T>
void normalise_as(const Panel& panel, const NormaliseArgs<T>& args) {
  for_columns(panel, [&]<int K, bool Part>(const Column<K, Part> column) {
    const auto a = args;
    const Lanes<K> mean(column, a.mean), factor(column, a.factor), shift(column, a.offset);
    each_row(panel, column, [&](int64_t offset) {
      for (int k = 0; k < K; ++k) {
        F32 y = (column.load(a.x + offset, k) - mean.v[k]) * factor.v[k] + shift.v[k];
        if constexpr (residual) y += column.load(a.residual + offset, k);
        column.store(a.y + offset, k, rectify ? relu(y) : y);
      }
    });
  });
}

template <typename T>
void normalise(const Panel& panel, const NormaliseArgs<T>& a) {
  const auto f = a.residual
                     ? (a.relu ? normalise_as<true, true, T> : normalise_as<true, false, T>)
                     : (a.relu ? normalise_as<false, true, T> : normalise_as<false, false, T>);
  f(panel, a);
}

/// dy where the ReLU let it through; `centred` is x − mean.
template <Mask mask, typename Column, typename T>
F32 masked(const Column& column, const NormaliseGradArgs<T>& a, int64_t offset, int k, F32 centred,
           F32 factor, F32 shift) {
  const F32 dy = column.load(a.dy + offset, k);
  if constexpr (mask == Mask::input) return centred * factor + shift > 0 ? dy : F32{};
  if constexpr (mask == Mask::output) return column.load(a.y + offset, k) > 0 ? dy : F32{};
  return dy;
}

template <Mask mask, typename T>
void grad_sums(const Panel& panel, const NormaliseGradArgs<T>& args, double* sums) {
  for_columns(panel, [&]<int K, bool Part>(const Column<K, Part> column) {
    const auto a = args;
    const Lanes<K> mean(column, a.mean), factor(column, a.factor), shift(column, a.offset);
    sum_rows(panel, column, sums, [&](Sums<K>& s, int64_t offset, int r) {
      for (int k = 0; k < K; ++k) {
        const F32 centred = column.load(a.x + offset, k) - mean.v[k];
        const F32 dy = masked<mask>(column, a, offset, k, centred, factor.v[k], shift.v[k]);
        s.first[r][k] += dy;
        s.second[r][k] += dy * centred;
      }
    });
  });
}

template <Mask mask, bool residual, typename T>
void grad(const Panel& panel, const NormaliseGradArgs<T>& args) {
  for_columns(panel, [&]<int K, bool Part>(const Column<K, Part> column) {
    const auto a = args;
    const Lanes<K> mean(column, a.mean), factor(column, a.factor), shift(column, a.offset);
    const Lanes<K> slope(column, a.slope), constant(column, a.constant);
    each_row(panel, column, [&](int64_t offset) {
      for (int k = 0; k < K; ++k) {
        const F32 centred = column.load(a.x + offset, k) - mean.v[k];
        const F32 dy = masked<mask>(column, a, offset, k, centred, factor.v[k], shift.v[k]);
        if constexpr (residual) column.store(a.dresidual + offset, k, dy);
        const F32 rest = centred * slope.v[k] + constant.v[k];
        column.store(a.dx + offset, k, dy * factor.v[k] + rest);
      }
    });
  });
}

template <typename T>
void normalise_grad_sums(const Panel& panel, const NormaliseGradArgs<T>& a, double* sums) {
  switch (a.mask) {
    case Mask::none:
      return grad_sums<Mask::none>(panel, a, sums);
    case Mask::input:
      return grad_sums<Mask::input>(panel, a, sums);
    case Mask::output:
      return grad_sums<Mask::output>(panel, a, sums);
  }
}

template <typename T>
void normalise_grad(const Panel& panel, const NormaliseGradArgs<T>& a) {
  switch (a.mask) {
    case Mask::none:
      return grad<Mask::none, false>(panel, a);
    case Mask::input:
      return grad<Mask::input, false>(panel, a);
    case Mask::output:
      return a.dresidual ? grad<Mask::output, true>(panel, a) : grad<Mask::output, false>(panel, a);
  }
}

template <typename T>
void fill(TypedLoops<T>& t) {
  t.moments = moments<T>;
  t.normalise = normalise<T>;
  t.normalise_grad_sums = normalise_grad_sums<T>;
  t.normalise_grad = normalise_grad<T>;
}

}  // namespace

void add_normalise(Loops& loops) {
  fill(loops.f32);
  fill(loops.bf16);
}

}  // namespace crossbow::simd::CROSSBOW_ISA
