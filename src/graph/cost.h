// The size of a graph in numbers that depend on no device.
#pragma once

#include "graph/graph.h"

namespace crossbow {

/// Values that a net trains or keeps frozen.
int64_t parameter_count(const Graph& graph);
/// Floating-point operations of one run, a multiply-add counted as two; what ops call negligible is
/// left out.
double flop_count(const Graph& graph);

}  // namespace crossbow
