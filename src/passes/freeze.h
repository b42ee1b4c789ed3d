// Parameters that training leaves as they are.
#pragma once

#include <regex>
#include <string>

#include "graph/graph.h"

namespace crossbow {

/// Of an ECMAScript regular expression. Throws UsageError if it is none.
std::regex name_pattern(const std::string& text);

/// Throws UsageError if one of the alternatives that `|` divides, as several patterns become, is
/// found in no parameter's name.
void expect_each_found(const Graph& forward, const std::string& pattern);

/// The forward graph with every parameter frozen in whose name `pattern` is found. Batch norm whose
/// scale and shift both are works as in evaluation: by its running statistics, which stay, too.
/// Throws UsageError if that is no parameter, or all of them.
Graph freeze(const Graph& forward, const std::string& pattern);

}  // namespace crossbow
