// The CPU device against the reference in double: every case of every op, and whole nets.
#include <fmt/format.h>

#include <algorithm>

#include "passes/passes.h"
#include "support/graph_comparison.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

constexpr double kF32 = 1e-5, kWinograd = 1e-3, kBf16 = 2e-2;

double tolerance_of(const Program& program, DType precision) {
  if (precision == DType::bf16) return kBf16;
  for (const Program::KernelInfo& info : program.kernel_infos()) {
    if (info.implementation.find("wino") != std::string::npos) return kWinograd;
  }
  return kF32;
}

/// oneDNN answers whatever it has no kernel for with a slow reference implementation.
void expect_no_fallback(const Program& program) {
  for (const Program::KernelInfo& info : program.kernel_infos()) {
    EXPECT_EQ(info.implementation.find("ref"), std::string::npos)
        << info.name << " (" << info.kind << ") is computed by " << info.implementation;
    EXPECT_FALSE(info.implementation.empty()) << info.name;
  }
}

/// Takes the n-th implementation of every layer that has as many.
class NthCandidate : public AlgorithmChooser {
 public:
  explicit NthCandidate(size_t n) : n_(n) {}
  size_t choose(const std::string&, std::span<const std::string> candidates,
                const std::function<double(size_t)>&) override {
    taken_ = taken_ || n_ < candidates.size();
    return std::min(n_, candidates.size() - 1);
  }
  bool taken() const { return taken_; }

 private:
  size_t n_;
  bool taken_ = false;
};

class CpuAgainstRef : public ::testing::TestWithParam<const Op*> {
 protected:
  static void check(const CompileOptions& options) {
    const Values values = options.precision == DType::bf16 ? Values::bf16 : Values::f32;
    for (const Case& c : GetParam()->cases()) {
      SCOPED_TRACE(c.name);
      const Graph graph = joint_graph(*GetParam(), c);
      GraphRun expected(graph, reference(), values), actual(graph, options, values);
      expected.run();
      actual.run();
      expect_same(actual, expected, tolerance_of(actual.program(), options.precision));
      if (options.device == "cpu") expect_no_fallback(actual.program());
    }
  }
};

TEST_P(CpuAgainstRef, F32) {
  check(cpu(DType::f32));
}

TEST_P(CpuAgainstRef, F32OnTwoThreads) {
  check(cpu(DType::f32, 2));
}

TEST_P(CpuAgainstRef, Bf16) {
  check(cpu(DType::bf16));
}

/// What the tuner may choose instead of the first: Winograd convolutions among others.
TEST_P(CpuAgainstRef, OtherImplementations) {
  for (DType precision : {DType::f32, DType::bf16}) {
    bool any = true;
    for (size_t n = 1; any; ++n) {
      NthCandidate chooser(n);
      CompileOptions options = cpu(precision, 2);
      options.chooser = &chooser;
      check(options);
      any = chooser.taken();
    }
  }
}

/// The reference itself in single precision.
TEST_P(CpuAgainstRef, ReferenceF32) {
  check(reference(DType::f32));
}

INSTANTIATE_TEST_SUITE_P(Ops, CpuAgainstRef, ::testing::ValuesIn(ops_with_cases()), op_name);

TEST(CpuDevice, HasEveryOpThatTheReferenceHas) {
  for (const Op* op : all_ops())
    EXPECT_EQ(supports("cpu", op->name), supports("ref", op->name)) << op->name;
}

class WholeNet : public ::testing::TestWithParam<const Model*> {
 protected:
  static Graph plain() { return with_gradients(small_model(*GetParam())); }
  static Graph fused() { return with_gradients(fuse(small_model(*GetParam()))); }

  static GraphRun run(const Graph& graph, const CompileOptions& options, uint64_t seed = 1,
                      Values values = Values::f32) {
    GraphRun result(graph, options, values, seed);
    result.run();
    return result;
  }

  /// Relative errors of the gradients; the losses must agree as well.
  static double error(const GraphRun& actual, const GraphRun& expected, double loss_tolerance) {
    EXPECT_LE(relative_error(actual.values("loss"), expected.values("loss")), loss_tolerance);
    return relative_error(actual.gradients(), expected.gradients());
  }
};

TEST_P(WholeNet, FusedAgreesWithUnfused) {
  EXPECT_LE(error(run(fused(), reference()), run(plain(), reference()), 1e-10), 1e-10);
}

/// Layers amplify rounding, as the reference in f32 shows, and may carry an activation across the
/// kink of its ReLU, which changes the gradient of a deep net by percents. A wrong kernel is wrong
/// for every draw of the weights, so one good draw of three is enough.
TEST_P(WholeNet, CpuAgreesWithReference) {
  bool good = false;
  std::string errors;
  for (uint64_t seed = 1; seed <= 3 && !good; ++seed) {
    const GraphRun expected = run(plain(), reference(), seed);
    const double rounding = error(run(plain(), reference(DType::f32), seed), expected, 1e-4);
    const double unfused_error = error(run(plain(), cpu(), seed), expected, 1e-4);
    const double fused_error = error(run(fused(), cpu(), seed), expected, 1e-4);
    good = std::max(unfused_error, fused_error) <= std::max(1e-4, 2 * rounding);
    errors +=
        fmt::format("rounding {}, unfused {}, fused {}\n", rounding, unfused_error, fused_error);
  }
  EXPECT_TRUE(good) << errors;
}

/// Where batch norm over four samples amplifies rounding of 0.4 %, only the loss and, roughly, the
/// last layer can agree.
TEST_P(WholeNet, FusedBf16AgreesWithReference) {
  const GraphRun actual = run(fused(), cpu(DType::bf16), 1, Values::bf16);
  const GraphRun expected = run(plain(), reference(), 1, Values::bf16);
  const double all_layers = error(actual, expected, 0.05);
  const bool amplifies = !expected.graph().find("batch_norm").empty();
  EXPECT_LE(all_layers, amplifies ? INFINITY : 0.1);
  const std::string last = expected.parameter_names().back();
  EXPECT_LE(relative_error(actual.gradient(last), expected.gradient(last)), 0.3) << last;
}

INSTANTIATE_TEST_SUITE_P(Models, WholeNet, ::testing::ValuesIn(all_models()), model_name);

}  // namespace
}  // namespace crossbow::testing
