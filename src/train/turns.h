// The order in which the nodes of an asynchronous run took their turns: a byte a turn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace crossbow {

constexpr const char* kTurnsFile = "turns";

std::string encode_turns(const std::vector<int32_t>& nodes);
/// Of the run in that folder, which has taken so many; empty if the file is not there or shorter.
std::vector<int32_t> read_turns(const std::filesystem::path& folder, int64_t turns);

}  // namespace crossbow
