// The order of what happens to the nodes of a rank, from which all else follows: written down, a
// run that has come to it by chance can be repeated.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace crossbow {

/// A plain value.
struct RankEvent {
  enum class Kind {
    turn,    // of a node of the rank begins
    answer,  // to what such a node has asked in its turn, which goes on
    arrival  // of a message from a node of another rank
  };
  /// Of an arrival: more messages than so many are not told apart.
  static constexpr int kMostOvertaken = 5, kMostNodes = 1 << 13;

  Kind kind = Kind::turn;
  int node = 0;       // among those of all ranks
  int overtaken = 0;  // messages to this rank that an arriving one's sender sent before it

  bool operator==(const RankEvent&) const = default;

  /// From 0 on, in 16 bits; −1 for what cannot be told.
  int32_t code() const {
    if (overtaken > kMostOvertaken || node >= kMostNodes) return -1;
    return node * kKinds + (kind == Kind::arrival ? 2 + overtaken : static_cast<int32_t>(kind));
  }
  static RankEvent of(int32_t code) {
    const int kind = code % kKinds;
    if (kind < 2) return {static_cast<Kind>(kind), code / kKinds, 0};
    return {Kind::arrival, code / kKinds, kind - 2};
  }

 private:
  static constexpr int32_t kKinds = 3 + kMostOvertaken;
};

/// Of the messages of other ranks' nodes, each of which counts what it sends this rank from 0 on.
class Arrivals {
 public:
  explicit Arrivals(int nodes) : nodes_(static_cast<size_t>(nodes)) {}

  /// How many that were sent before have not arrived.
  int overtaken(int node, int64_t number) const {
    const Node& n = nodes_[static_cast<size_t>(node)];
    const int64_t ahead = number - n.next;
    const uint64_t before = ahead < kMost ? (uint64_t{1} << ahead) - 1 : ~uint64_t{0};
    return static_cast<int>(ahead) - std::popcount(n.arrived & before);
  }
  /// The same, of one that arrives now.
  int take(int node, int64_t number) {
    Node& n = nodes_[static_cast<size_t>(node)];
    if (number - n.next >= kMost) return kMost;
    const int before = overtaken(node, number);
    n.arrived |= uint64_t{1} << (number - n.next);
    const int whole = std::countr_one(n.arrived);
    n.next += whole;
    n.arrived = whole < kMost ? n.arrived >> whole : 0;
    return before;
  }

 private:
  static constexpr int kMost = 64;
  struct Node {
    int64_t next = 0;      // all before have arrived
    uint64_t arrived = 0;  // a bit for each from there on
  };
  std::vector<Node> nodes_;
};

}  // namespace crossbow
