#include "kernels/cpu/pair_tiles.h"

#include "kernels/cpu/loops.h"
#include "kernels/cpu/team.h"

namespace crossbow {
namespace {

constexpr int64_t kTile = 16;
constexpr float kZeros[kTile] = {};

/// A step along some dimensions; kPadding if only `to` is that long.
struct Offsets {
  int64_t from, to;
};
constexpr int64_t kPadding = -1;

struct Sides {
  int row, column;  // the tiles' dimensions
  bool pairs_rows;
};

std::optional<Sides> sides(const Layout& from, const Layout& to) {
  if (from.dtype != DType::f32 || to.dtype != DType::bf16) return {};
  if (from.blocks.size() != 2 || to.blocks.size() < 2 || to.blocks.size() > 3) return {};
  const auto [row, column] = std::pair(from.blocks[0], from.blocks[1]);
  if (row.size != kTile || column.size % kTile != 0 || row.dim == column.dim) return {};

  const Layout::Block pair = to.blocks.back(), run = to.blocks[to.blocks.size() - 2];
  const bool pairs_rows = pair.dim == row.dim;
  if (pair.size != 2 || (!pairs_rows && pair.dim != column.dim)) return {};
  if (run.dim != (pairs_rows ? column.dim : row.dim) || run.size % kTile != 0) return {};
  const bool more = to.blocks.size() == 3;
  if (more && (to.blocks[0].dim != pair.dim || to.blocks[0].size % (kTile / 2) != 0)) return {};
  if (to.padded[pair.dim] % kTile != 0) return {};
  return Sides{row.dim, column.dim, pairs_rows};
}

/// Of an index along one dimension; a place is the sum of these.
Offsets along(const Layout& from, const Layout& to, int dim, int64_t index) {
  Shape at = from.shape;
  for (int d = 0; d < at.rank(); ++d) at[d] = d == dim ? index : 0;
  return {from.offset(at), to.offset(at)};
}

std::vector<Offsets> tiles_along(const Layout& from, const Layout& to, int dim) {
  std::vector<Offsets> all;
  for (int64_t i = 0; i < to.padded[dim]; i += kTile) {
    all.push_back(along(from, to, dim, i));
    if (i >= from.padded[dim]) all.back().from = kPadding;
  }
  return all;
}

/// Over the dimensions that are no tile's.
std::vector<Offsets> positions(const Layout& from, const Layout& to, const Sides& sides) {
  std::vector<Offsets> all{{0, 0}};
  for (int d = 0; d < from.shape.rank(); ++d) {
    if (d == sides.row || d == sides.column) continue;
    std::vector<Offsets> outer = std::move(all);
    all.clear();
    for (const Offsets& o : outer) {
      for (int64_t i = 0; i < from.shape[d]; ++i) {
        const Offsets step = along(from, to, d, i);
        all.push_back({o.from + step.from, o.to + step.to});
      }
    }
  }
  return all;
}

}  // namespace

std::optional<PreparedKernel> prepare_pairs(const Layout& from, const Layout& to, int threads) {
  const auto of = sides(from, to);
  if (!of) return {};
  PreparedKernel kernel{{from}, {to}};
  kernel.implementation = "loops:pairs";
  kernel.bind = [rows = tiles_along(from, to, of->row), columns = tiles_along(from, to, of->column),
                 inner = positions(from, to, *of), row_stride = from.blocks[1].size,
                 pair_stride = along(from, to, of->pairs_rows ? of->row : of->column, 2).to,
                 loop = of->pairs_rows ? loops().pair_rows : loops().pair_columns,
                 threads = useful_threads(threads, from.elements())](Operands o) -> Call {
    return [=, source = static_cast<const float*>(o.inputs[0]),
            target = static_cast<Bf16*>(o.outputs[0])](const Step&) {
      const auto across = std::ssize(columns);
      parallel_for(threads, std::ssize(rows) * across, [&](int64_t i) {
        const Offsets &row = rows[i / across], &column = columns[i % across];
        const bool padding = row.from == kPadding || column.from == kPadding;
        for (const Offsets& p : inner) {
          loop(padding ? kZeros : source + row.from + column.from + p.from,
               padding ? 0 : row_stride, target + row.to + column.to + p.to, pair_stride);
        }
      });
    };
  };
  return kernel;
}

}  // namespace crossbow
