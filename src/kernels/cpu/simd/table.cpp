#include "kernels/cpu/simd/tables.h"

#define CROSSBOW_STRING(x) #x
#define CROSSBOW_NAME(x) CROSSBOW_STRING(x)

namespace crossbow::simd::CROSSBOW_ISA {

const Loops& table() {
  static const Loops table = [] {
    Loops loops{};
    loops.name = CROSSBOW_NAME(CROSSBOW_ISA);
    add_normalise(loops);
    add_elementwise(loops);
    add_dropout(loops);
    add_rows(loops);
    add_flat(loops);
    add_sgd(loops);
    add_dense(loops);
    add_sparse(loops);
    add_pairs(loops);
    return loops;
  }();
  return table;
}

}  // namespace crossbow::simd::CROSSBOW_ISA
