// What each file of this folder puts into the instruction set's table.
#pragma once

#include "kernels/cpu/loops.h"

namespace crossbow::simd::CROSSBOW_ISA {

void add_normalise(Loops& loops);
void add_elementwise(Loops& loops);
void add_dropout(Loops& loops);
void add_rows(Loops& loops);
void add_flat(Loops& loops);
void add_sgd(Loops& loops);
void add_dense(Loops& loops);
void add_sparse(Loops& loops);
void add_pairs(Loops& loops);

const Loops& table();

}  // namespace crossbow::simd::CROSSBOW_ISA
