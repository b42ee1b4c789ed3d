// What of an asynchronous run chance decides, in the run's folder: the order in which its nodes
// took their turns, a byte a turn. Of several ranks blocks, one for each checkpoint: a line of JSON
// (the segments of training with the shares of ranks, how many events each rank had, a checksum of
// all), and the events, rank after rank, as 16-bit codes of RankEvent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crossbow {

constexpr const char* kTurnsFile = "turns";

std::string encode_turns(const std::vector<int32_t>& nodes);
/// Of the run in that folder, which has taken so many; empty if the file is not there or shorter.
std::vector<int32_t> read_turns(const std::filesystem::path& folder, int64_t turns);

/// Of several ranks.
struct RankTurns {
  struct Segment {
    int64_t batches = 0;          // 0: only shares change here
    std::vector<int64_t> shares;  // of ranks in a round, from its end on; empty: as before
  };
  std::vector<Segment> segments;
  std::vector<std::vector<int32_t>> events;  // by rank, codes of RankEvent
};

/// Nothing if an event has no code.
std::optional<std::string> encode_turns(const RankTurns& turns);
/// Of ranks with as many nodes each. Throws Error for what encode_turns has not written for them.
RankTurns decode_turns(std::string_view text, int ranks, int nodes);
/// Of the run in that folder, the first bytes of its file; of ranks with as many nodes each. Throws
/// Error if they are not there, damaged, or of other ranks.
RankTurns read_rank_turns(const std::filesystem::path& folder, int64_t bytes, int ranks, int nodes);

}  // namespace crossbow
