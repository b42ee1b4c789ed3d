// What a checkpoint tells beside its tensors, as JSON.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "train/checkpoint.h"

namespace crossbow {

nlohmann::json header_of(const Checkpoint& checkpoint);

/// The reverse; `add_tensors` is to add the tensors. Throws Error for anything that header_of has
/// not written, also if `add_tensors` throws Error or nlohmann::json::exception. Headers of version
/// 3 and later are read.
Checkpoint from_header(
    std::string_view text, uint32_t version,
    const std::function<void(const nlohmann::json& header, Checkpoint& checkpoint)>& add_tensors);

/// Reads a stored tensor's values, which begin there in the file.
std::function<void(int64_t first, std::span<float> values)> values_at(
    std::shared_ptr<const FileBytes> file, int64_t at);

/// Sizes at least 1 whose product is at most `limit`: what follows may multiply them freely. Throws
/// Error for others.
Shape shape_from(const std::vector<int64_t>& sizes, size_t limit);

}  // namespace crossbow
