// A replica's tensors by name, as row-major floats: how a program reads and sets them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/program.h"

namespace crossbow {

/// Both throw UsageError for a name that the net does not have, naming the nearest, and for a
/// number of values that is not that of the tensor, naming its shape.
std::vector<float> read_named(const ParameterLayout& layout, const Replica& replica,
                              std::string_view name);
void write_named(const ParameterLayout& layout, const Replica& replica, std::string_view name,
                 std::span<const float> values);

}  // namespace crossbow
