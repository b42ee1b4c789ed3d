// In which parts the gradient is added up over ranks.
#pragma once

#include <vector>

#include "plan/program.h"

namespace crossbow {

/// Buckets of the flat gradient, each of whole parameters in a row, in the order in which a
/// backward pass completes them: the net's last parameters first. The sum of each may begin when it
/// is complete, beside the rest of the pass. A parameter's gradient is complete all at once, so
/// there would be no use in cutting it.
std::vector<ParameterLayout::Piece> gradient_buckets(const ParameterLayout& layout);

}  // namespace crossbow
