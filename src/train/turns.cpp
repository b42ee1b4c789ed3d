#include "train/turns.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/crc32c.h"
#include "core/error.h"
#include "core/file.h"
#include "learner/rank_events.h"

namespace crossbow {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kChecksum = "crc32c";

/// The file's first bytes; empty if it has not as many.
std::string read_first(const fs::path& path, int64_t bytes) {
  if (type_of(path) != fs::file_type::regular) return {};
  const Descriptor file = open_regular_file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || status.st_size < bytes) return {};
  std::string text(static_cast<size_t>(bytes), '\0');
  read_at(file, 0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}, path);
  return text;
}

/// Of the line, but for itself, and the events.
std::string checksum(json head, std::string_view events) {
  head.erase(kChecksum);
  const std::string text = head.dump().append(events);
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  return fmt::format("{:08x}", crc32c({data, text.size()}));
}

/// Whether they can be of that rank.
bool fits(const RankEvent& event, int rank, int ranks, int nodes) {
  const bool own = event.node / nodes == rank;
  return event.node < ranks * nodes && own == (event.kind != RankEvent::Kind::arrival);
}

void expect(bool is_so) {
  if (!is_so) fail("it is damaged");
}

std::vector<int64_t> whole_numbers(const json& value) {
  constexpr uint64_t kMost = uint64_t{1} << 53;
  std::vector<int64_t> numbers;
  expect(value.is_array());
  for (const json& number : value) {
    expect(number.is_number_unsigned() && number.get<uint64_t>() <= kMost);
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

RankTurns::Segment segment_from(const json& value, int ranks) {
  const std::vector<int64_t> numbers = whole_numbers(value);
  expect(!numbers.empty());
  RankTurns::Segment segment{numbers[0], {numbers.begin() + 1, numbers.end()}};
  const auto& shares = segment.shares;
  const bool shared = std::ssize(shares) == ranks && std::ranges::find(shares, 0) == shares.end();
  expect(shares.empty() ? segment.batches > 0 : shared);
  return segment;
}

/// Adds the block that the text begins with, and takes it off.
void take_block(std::string_view& text, int nodes, RankTurns& turns) {
  const size_t line = text.find('\n');
  expect(line != text.npos);
  const json head = json::parse(text.substr(0, line));
  text.remove_prefix(line + 1);
  const int ranks = static_cast<int>(std::ssize(turns.events));
  for (const json& segment : head.at("segments")) {
    turns.segments.push_back(segment_from(segment, ranks));
  }
  const std::vector<int64_t> counts = whole_numbers(head.at("events"));
  expect(std::ssize(counts) == ranks);
  for (const int64_t count : counts) expect(count <= std::ssize(text));
  const size_t bytes =
      static_cast<size_t>(std::reduce(counts.begin(), counts.end())) * sizeof(uint16_t);
  expect(bytes <= text.size() && checksum(head, text.substr(0, bytes)) == head.at(kChecksum));
  for (int r = 0; r < ranks; ++r) {
    for (int64_t e = 0; e < counts[static_cast<size_t>(r)]; ++e) {
      uint16_t code;
      std::memcpy(&code, text.data(), sizeof code);
      text.remove_prefix(sizeof code);
      expect(fits(RankEvent::of(code), r, ranks, nodes));
      turns.events[static_cast<size_t>(r)].push_back(code);
    }
  }
}

}  // namespace

std::string encode_turns(const std::vector<int32_t>& nodes) {
  std::string bytes;
  for (const int32_t node : nodes) bytes += static_cast<char>(node);
  return bytes;
}

std::vector<int32_t> read_turns(const fs::path& folder, int64_t turns) {
  const std::string bytes = read_first(folder / kTurnsFile, turns);
  std::vector<int32_t> nodes;
  for (const char node : bytes) nodes.push_back(static_cast<uint8_t>(node));
  return nodes;
}

std::optional<std::string> encode_turns(const RankTurns& turns) {
  std::string events;
  json counts = json::array(), segments = json::array();
  for (const std::vector<int32_t>& of_rank : turns.events) {
    counts.push_back(of_rank.size());
    for (const int32_t code : of_rank) {
      if (code < 0) return {};
      const auto stored = static_cast<uint16_t>(code);
      events.append(reinterpret_cast<const char*>(&stored), sizeof stored);
    }
  }
  for (const RankTurns::Segment& segment : turns.segments) {
    json numbers = json::array({segment.batches});
    for (const int64_t share : segment.shares) numbers.push_back(share);
    segments.push_back(std::move(numbers));
  }
  json head = {{"segments", segments}, {"events", counts}};
  head[kChecksum] = checksum(head, events);
  return head.dump() + '\n' + events;
}

RankTurns decode_turns(std::string_view text, int ranks, int nodes) {
  RankTurns turns;
  turns.events.resize(static_cast<size_t>(ranks));
  try {
    do {
      take_block(text, nodes, turns);
    } while (!text.empty());
  } catch (const json::exception& e) {
    fail("it is damaged: {}", e.what());
  }
  return turns;
}

RankTurns read_rank_turns(const fs::path& folder, int64_t bytes, int ranks, int nodes) {
  try {
    return decode_turns(read_first(folder / kTurnsFile, bytes), ranks, nodes);
  } catch (const Error&) {
    fail("cannot repeat {}: its file {} is missing or damaged", folder.string(), kTurnsFile);
  }
}

}  // namespace crossbow
