// How long steps and messages take on the virtual clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace crossbow {

/// Messages between nodes that are machines of their own. Times are in steps of an ordinary node.
struct NetworkTerms {
  double latency = 0;    // from when a message's first byte leaves one card till it is at another
  double bandwidth = 0;  // of a card, in bytes a step, each way; 0: no limit

  /// That a card takes for so many bytes.
  double transfer(int64_t bytes) const {
    return bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0;
  }
  /// A sum of a vector over so many nodes: each sends all others their shares of the vector, adds
  /// up what comes, and sends all others the sum of its own share.
  double sum(int nodes, int64_t bytes) const {
    const double all = transfer(bytes), others = nodes - 1;
    return nodes > 1 ? 2 * (latency + all * others / nodes) : 0;
  }
};

/// In steps of an ordinary node, whose mean time is 1.
struct Pace {
  enum class Times { lognormal, uniform, recorded };
  Times times = Times::lognormal;
  /// Lognormal: standard deviation of the logarithm. Uniform: in 1 − spread to 1 + spread.
  double spread = 0.1;
  std::vector<double> recorded = {};  // one of them, all equally likely
  std::vector<double> slowness = {};  // by node, a factor; 1 beyond the last
  /// Rows that take as long as the rest of a step; 0: its time does not depend on its rows.
  double costly_rows = 0;

  double step_seconds = 0;  // 0: not known, and steps are the only unit
  std::optional<NetworkTerms> network = {};
  /// By node, when it fails; infinity, also beyond the last: never.
  std::vector<double> fails = {};

  double slowness_of(int node) const { return entry(slowness, node, 1); }
  double fails_at(int node) const;
  /// Of a node's step of that number in the run, on so many rows.
  double duration(uint64_t seed, int node, int64_t step, int64_t rows) const;

 private:
  static double entry(const std::vector<double>& list, int node, double beyond) {
    const auto at = static_cast<size_t>(node);
    return at < list.size() ? list[at] : beyond;
  }
};

}  // namespace crossbow
