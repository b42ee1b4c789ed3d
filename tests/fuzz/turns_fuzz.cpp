#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "train/turns.h"

FUZZ_TARGET(turns, bytes) {
  constexpr int kRanks = 2, kNodes = 1;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const crossbow::RankTurns turns = crossbow::decode_turns(text, kRanks, kNodes);
  const auto again = crossbow::encode_turns(turns);
  if (!again || crossbow::encode_turns(crossbow::decode_turns(*again, kRanks, kNodes)) != again) {
    std::abort();
  }
}
