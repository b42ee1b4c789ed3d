// "Did you mean …?": the name that a mistyped one most likely stands for.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace crossbow {

/// Insertions, deletions, substitutions and exchanges of neighbours that turn one into the other.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance to `name`, the earlier one of equals, or the first
/// that `name` is the start of; empty if none is near enough to be meant.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

/// For the end of a sentence: "; did you mean 'lenet'?", or nothing.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace crossbow
