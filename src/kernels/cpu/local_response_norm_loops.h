// Local response normalisation by plain loops, for the sizes and numbers of channels for which
// oneDNN has only its slow reference.
#pragma once

#include "kernels/kernel.h"

namespace crossbow {

/// Its second output is the scale of each element, in f32.
PreparedKernel prepare_response_by_loops(const PrepareContext& c);
PreparedKernel prepare_response_grad_by_loops(const PrepareContext& c);

}  // namespace crossbow
