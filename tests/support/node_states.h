// What asynchronous nodes have come to.
#pragma once

#include <set>
#include <vector>

#include "learner/engine_place.h"

namespace crossbow::testing {

inline int64_t rows_learned(const std::vector<NodeState>& nodes) {
  int64_t rows = 0;
  for (const NodeState& node : nodes) rows += node.report.rows;
  return rows;
}

inline std::set<int> failed_nodes(const std::vector<NodeState>& nodes) {
  std::set<int> failed;
  for (size_t j = 0; j < nodes.size(); ++j) {
    if (nodes[j].failed) failed.insert(static_cast<int>(j));
  }
  return failed;
}

}  // namespace crossbow::testing
