// A device against the reference in double.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "passes/passes.h"
#include "support/model_testing.h"

namespace crossbow::testing {

inline double tolerance_of(const Program& program, const CompileOptions& options) {
  constexpr double kF32 = 1e-5, kTf32 = 2e-3, kWinograd = 1e-3, kBf16 = 2e-2;
  if (options.precision == DType::bf16) return kBf16;
  if (options.tf32) return kTf32;
  for (const Program::KernelInfo& info : program.kernel_infos()) {
    if (info.implementation.find("wino") != std::string::npos) return kWinograd;
  }
  return kF32;
}

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

/// Every case of the op, whose programs `look` sees.
inline void expect_cases_agree(
    const Op& op, const CompileOptions& options,
    const std::function<void(const Program&)>& look = [](const Program&) {}) {
  const Values values = options.precision == DType::bf16 ? Values::bf16 : Values::f32;
  for (const Case& c : op.cases()) {
    SCOPED_TRACE(c.name);
    const Graph graph = joint_graph(op, c);
    GraphRun expected(graph, reference(), values), actual(graph, options, values);
    expected.run();
    actual.run();
    expect_same(actual, expected, tolerance_of(actual.program(), options));
    look(actual.program());
  }
}

/// Of every case of the op whenever it is run.
inline void expect_same_bits_again(const Op& op, const CompileOptions& options) {
  for (const Case& c : op.cases()) {
    SCOPED_TRACE(c.name);
    const Graph graph = joint_graph(op, c);
    GraphRun first(graph, options), second(graph, options);
    first.run();
    second.run();
    EXPECT_EQ(first.values("y"), second.values("y"));
    EXPECT_TRUE(same_bytes(first.replica().gradients, second.replica().gradients));
    EXPECT_TRUE(same_bytes(first.replica().states, second.replica().states));
    for (int times = 0; times < 2; ++times) second.run();  // as a recording, where there are such
    EXPECT_TRUE(same_bytes(first.replica().gradients, second.replica().gradients));
  }
}

inline Graph plain_net(const Model& model) {
  return with_gradients(small_model(model));
}

inline Graph fused_net(const Model& model) {
  return with_gradients(fuse(small_model(model)));
}

inline GraphRun run_of(const Graph& graph, const CompileOptions& options, uint64_t seed = 1,
                       Values values = Values::f32) {
  GraphRun result(graph, options, values, seed);
  result.run();
  return result;
}

/// Relative errors of the gradients; the losses must agree as well.
inline double gradient_error(const GraphRun& actual, const GraphRun& expected,
                             double loss_tolerance) {
  EXPECT_LE(relative_error(actual.values("loss"), expected.values("loss")), loss_tolerance);
  return relative_error(actual.gradients(), expected.gradients());
}

/// Layers amplify rounding, as the reference in f32 shows, and may carry an activation across the
/// kink of its ReLU, which changes the gradient of a deep net by percents. A wrong kernel is wrong
/// for every draw of the weights, so one good draw of three is enough.
inline void expect_net_agrees(const Model& model, const CompileOptions& options) {
  const Graph plain = plain_net(model), fused = fused_net(model);
  bool good = false;
  std::string errors;
  for (uint64_t seed = 1; seed <= 3 && !good; ++seed) {
    const GraphRun expected = run_of(plain, reference(), seed);
    const auto error = [&](const Graph& graph, const CompileOptions& o) {
      return gradient_error(run_of(graph, o, seed), expected, 1e-4);
    };
    const double rounding = error(plain, reference(DType::f32));
    const double unfused_error = error(plain, options), fused_error = error(fused, options);
    good = std::max(unfused_error, fused_error) <= std::max(1e-4, 2 * rounding);
    errors +=
        fmt::format("rounding {}, unfused {}, fused {}\n", rounding, unfused_error, fused_error);
  }
  EXPECT_TRUE(good) << errors;
}

}  // namespace crossbow::testing
