// The arguments of the loops that step, from what the optimizers say.
#pragma once

#include "device/optimizer.h"
#include "device/vector_math.h"
#include "kernels/cpu/loops.h"

namespace crossbow {

/// Of steps of either rule: a live one reads neither momentum nor pull.
SgdArgs sgd_args(const UpdateStep& step, double gradient_scale = 1);
/// Without a pull nobody reads what weights are pulled towards: others may be writing it.
SgdArrays sgd_arrays(const UpdateStep& step, const UpdateSpans& spans);
HogwildArrays hogwild_arrays(const UpdateStep& step, const UpdateSpans& spans);

}  // namespace crossbow
