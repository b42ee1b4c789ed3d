// Two runs of a graph, of which the second is right.
#pragma once

#include "support/graph_testing.h"

namespace crossbow::testing {

/// Results, gradients and states (running statistics).
inline void expect_same(const GraphRun& actual, const GraphRun& expected, double tolerance) {
  EXPECT_LE(relative_error(actual.values("y"), expected.values("y")), tolerance) << "y";
  for (const std::string& name : expected.trained_names()) {
    EXPECT_LE(relative_error(actual.gradient(name), expected.gradient(name)), tolerance)
        << "gradient of " << name;
  }
  for (const auto& slot : expected.program().parameters()->states) {
    EXPECT_LE(relative_error(actual.get(slot.name), expected.get(slot.name)), tolerance)
        << slot.name;
  }
}

}  // namespace crossbow::testing
