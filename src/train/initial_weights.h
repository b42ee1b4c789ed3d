// What a new run starts from, where that is a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plan/program.h"

namespace crossbow {

/// Sets the net's tensors to those of the same names in a file of safetensors. Where the net's last
/// layer has another number of outputs than the file's, it keeps its values, as do auxiliary heads:
/// layers of as many outputs in both.
/// Returns notes on what was not taken. Throws Error naming the tensor if one is missing or has
/// another shape, and if the file cannot be used.
std::vector<std::string> start_from_file(const std::filesystem::path& path,
                                         const ParameterLayout& layout, const Replica& model);

}  // namespace crossbow
