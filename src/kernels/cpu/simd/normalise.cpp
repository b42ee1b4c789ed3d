// The passes of batch normalisation over panels (loops.h). A panel's lanes are taken in columns of
// K pairs of vectors, whose per-lane arguments and sums stay in registers while the loop runs down
// the rows. Arguments are copied to local variables, which a store to memory cannot change, for the
// same reason.
#include "kernels/cpu/simd/tables.h"
#include "kernels/cpu/simd/vec.h"

namespace crossbow::simd::CROSSBOW_ISA {
namespace {

/// K whole pairs of vectors, or (K is 1) the first `count` lanes of one.
template <int K, bool Part>
struct Column {
  int64_t first;  // lane
  int64_t count;

  template <typename T>
  Pair load(const T* row, int k) const {
    return Part ? load_part(row, count) : load_pair(row + k * kPair);
  }
  template <typename T>
  void store(T* row, int k, Pair v) const {
    Part ? store_part(row, v, count) : store_pair(row + k * kPair, v);
  }
};

/// Calls f(column) for the columns that make up the panel.
template <typename F>
void for_columns(const Panel& panel, F f) {
  int64_t first = 0;
  const auto left = [&] { return panel.lanes - first; };
  for (; left() >= 2 * kPair; first += 2 * kPair) f(Column<2, false>{first, 2 * kPair});
  for (; left() >= kPair; first += kPair) f(Column<1, false>{first, kPair});
  if (left() > 0) f(Column<1, true>{first, left()});
}

/// Per-lane arguments, arranged like elements stored as T.
template <typename T, int K>
struct Lanes {
  Pair at[K];

  template <bool Part>
  Lanes(const Column<K, Part>& column, const float* from) {
    for (int k = 0; k < K; ++k) at[k] = arranged<T>(column.load(from + column.first, k));
  }
};

/// Two sums a lane. f32 takes some 64 terms, then they move on to double.
template <typename T, int K>
struct Sums {
  static constexpr int kRows = 2 / K;            // in flight, to hide the additions' latency
  static constexpr int64_t kFlush = 64 * kRows;  // rows
  Pair first[kRows][K] = {}, second[kRows][K] = {};

  template <bool Part>
  void flush(const Column<K, Part>& column, double* sums) {
    for (int k = 0; k < K; ++k) {
      const int64_t lane = column.first + k * kPair, left = column.count - k * kPair;
      add(first, k, sums + lane, left);
      add(second, k, sums + kMaxLanes + lane, left);
    }
  }

  static void add(Pair (&rows)[kRows][K], int k, double* to, int64_t count) {
    Pair total = rows[0][k];
    rows[0][k] = Pair{};
    for (int r = 1; r < kRows; ++r) {
      for (int h = 0; h < 2; ++h) total.v[h] += rows[r][k].v[h];
      rows[r][k] = Pair{};
    }
    float values[kPair];
    store_pair(values, in_order<T>(total));
    for (int64_t l = 0; l < (count < kPair ? count : kPair); ++l) to[l] += values[l];
  }
};

/// Runs `row(sums, offset, r)` over the panel's rows, where r says which of the sums' rows to use.
template <typename T, int K, bool Part, typename F>
void sum_rows(const Panel panel, const Column<K, Part> column, double* sums, F row) {
  constexpr int kRows = Sums<T, K>::kRows;
  constexpr int64_t kFlush = Sums<T, K>::kFlush;
  Sums<T, K> partial;
  int64_t pending = 0;
  for (int64_t n = 0; n < panel.batch; ++n) {
    for (int64_t begin = 0; begin < panel.rows; begin += kFlush) {
      const int64_t rows = panel.rows - begin < kFlush ? panel.rows - begin : kFlush;
      int64_t offset = n * panel.batch_stride + begin * panel.row_stride + column.first;
      int64_t i = 0;
      for (; i + kRows <= rows; i += kRows) {
        for (int r = 0; r < kRows; ++r, offset += panel.row_stride) row(partial, offset, r);
      }
      for (; i < rows; ++i, offset += panel.row_stride) row(partial, offset, 0);
      pending += rows;
      if (pending < kFlush) continue;
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
    const Lanes<T, K> from(column, origin);
    sum_rows<T>(panel, column, sums, [&](Sums<T, K>& s, int64_t offset, int r) {
      for (int k = 0; k < K; ++k) {
        const Pair v = column.load(x + offset, k);
        for (int h = 0; h < 2; ++h) {
          const F32 d = v.v[h] - from.at[k].v[h];
          s.first[r][k].v[h] += d;
          s.second[r][k].v[h] += d * d;
        }
      }
    });
  });
}

/// (x − mean)·factor + offset as x·factor + shift.
template <typename T, int K>
struct Normal {
  Lanes<T, K> factor, shift;

  template <bool Part, typename Args>
  Normal(const Column<K, Part>& column, const Args& a)
      : factor(column, a.factor), shift(column, a.offset) {
    const Lanes<T, K> mean(column, a.mean);
    for (int k = 0; k < K; ++k) {
      for (int h = 0; h < 2; ++h) shift.at[k].v[h] -= mean.at[k].v[h] * factor.at[k].v[h];
    }
  }
  F32 operator()(int k, int h, F32 x) const { return x * factor.at[k].v[h] + shift.at[k].v[h]; }
};

template <Rectifier rectifier>
F32 rectified(F32 y) {
  if constexpr (rectifier == Rectifier::relu) return relu(y);
  if constexpr (rectifier == Rectifier::relu6) return relu6(y);
  return y;
}

template <bool residual, Rectifier rectifier, typename T>
void normalise_as(const Panel& panel, const NormaliseArgs<T>& args) {
  for_columns(panel, [&]<int K, bool Part>(const Column<K, Part> column) {
    const auto a = args;
    const Normal<T, K> normal(column, a);
    each_row(panel, column, [&](int64_t offset) {
      for (int k = 0; k < K; ++k) {
        Pair v = column.load(a.x + offset, k), added{};
        if constexpr (residual) added = column.load(a.residual + offset, k);
        for (int h = 0; h < 2; ++h) {
          const F32 y = normal(k, h, v.v[h]) + added.v[h];
          v.v[h] = rectified<rectifier>(y);
        }
        column.store(a.y + offset, k, v);
      }
    });
  });
}

template <typename T>
void normalise(const Panel& panel, const NormaliseArgs<T>& a) {
  switch (a.rectifier) {
    case Rectifier::none:
      return a.residual ? normalise_as<true, Rectifier::none>(panel, a)
                        : normalise_as<false, Rectifier::none>(panel, a);
    case Rectifier::relu:
      return a.residual ? normalise_as<true, Rectifier::relu>(panel, a)
                        : normalise_as<false, Rectifier::relu>(panel, a);
    case Rectifier::relu6:
      return normalise_as<false, Rectifier::relu6>(panel, a);
  }
}

/// Of row `offset`, pair k: x, and dy where the rectifier let it through.
struct Masked {
  Pair x, dy;

  template <Mask mask, typename T, int K, bool Part>
  static Masked load(const Column<K, Part>& column, const NormaliseGradArgs<T>& a,
                     const Normal<T, K>& normal, int64_t offset, int k) {
    Masked m{column.load(a.x + offset, k), column.load(a.dy + offset, k)};
    Pair y = m.x;
    if constexpr (mask == Mask::output) y = column.load(a.y + offset, k);
    for (int h = 0; h < 2; ++h) {
      if constexpr (mask == Mask::input || mask == Mask::input6) {
        y.v[h] = normal(k, h, m.x.v[h]);
      }
      if constexpr (mask != Mask::none) m.dy.v[h] = y.v[h] > 0 ? m.dy.v[h] : F32{};
      if constexpr (mask == Mask::input6) m.dy.v[h] = y.v[h] < 6 ? m.dy.v[h] : F32{};
    }
    return m;
  }
};

template <Mask mask, typename T>
void grad_sums(const Panel& panel, const NormaliseGradArgs<T>& args, double* sums) {
  for_columns(panel, [&]<int K, bool Part>(const Column<K, Part> column) {
    const auto a = args;
    const Normal<T, K> normal(column, a);
    const Lanes<T, K> mean(column, a.mean);
    sum_rows<T>(panel, column, sums, [&](Sums<T, K>& s, int64_t offset, int r) {
      for (int k = 0; k < K; ++k) {
        const Masked m = Masked::load<mask>(column, a, normal, offset, k);
        for (int h = 0; h < 2; ++h) {
          s.first[r][k].v[h] += m.dy.v[h];
          s.second[r][k].v[h] += m.dy.v[h] * (m.x.v[h] - mean.at[k].v[h]);
        }
      }
    });
  });
}

template <Mask mask, bool residual, typename T>
void grad(const Panel& panel, const NormaliseGradArgs<T>& args) {
  for_columns(panel, [&]<int K, bool Part>(const Column<K, Part> column) {
    const auto a = args;
    const Normal<T, K> normal(column, a);
    const Lanes<T, K> mean(column, a.mean), slope(column, a.slope);
    Lanes<T, K> constant(column, a.constant);
    for (int k = 0; k < K; ++k) {
      for (int h = 0; h < 2; ++h) constant.at[k].v[h] -= slope.at[k].v[h] * mean.at[k].v[h];
    }
    each_row(panel, column, [&](int64_t offset) {
      for (int k = 0; k < K; ++k) {
        const Masked m = Masked::load<mask>(column, a, normal, offset, k);
        if constexpr (residual) column.store(a.dresidual + offset, k, m.dy);
        Pair dx;
        for (int h = 0; h < 2; ++h) {
          const F32 rest = m.x.v[h] * slope.at[k].v[h] + constant.at[k].v[h];
          dx.v[h] = m.dy.v[h] * normal.factor.at[k].v[h] + rest;
        }
        column.store(a.dx + offset, k, dx);
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
    case Mask::input6:
      return grad_sums<Mask::input6>(panel, a, sums);
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
    case Mask::input6:
      return grad<Mask::input6, false>(panel, a);
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
