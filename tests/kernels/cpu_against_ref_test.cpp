// The CPU device against the reference in double: every case of every op, and whole nets.
#include <algorithm>

#include "support/against_reference.h"

namespace crossbow::testing {
namespace {

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
    expect_cases_agree(*GetParam(), options, [&](const Program& program) {
      if (options.device == "cpu") expect_no_fallback(program);
    });
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
  static Graph plain() { return plain_net(*GetParam()); }
  static Graph fused() { return fused_net(*GetParam()); }
};

TEST_P(WholeNet, FusedAgreesWithUnfused) {
  EXPECT_LE(gradient_error(run_of(fused(), reference()), run_of(plain(), reference()), 1e-10),
            1e-10);
}

TEST_P(WholeNet, CpuAgreesWithReference) {
  expect_net_agrees(*GetParam(), cpu());
}

/// Where batch norm over four samples amplifies rounding of 0.4 %, only the loss and, roughly, the
/// last layer can agree.
TEST_P(WholeNet, FusedBf16AgreesWithReference) {
  const GraphRun actual = run_of(fused(), cpu(DType::bf16), 1, Values::bf16);
  const GraphRun expected = run_of(plain(), reference(), 1, Values::bf16);
  const double all_layers = gradient_error(actual, expected, 0.05);
  const bool amplifies = !expected.graph().find("batch_norm").empty();
  EXPECT_LE(all_layers, amplifies ? INFINITY : 0.1);
  const std::string last = expected.parameter_names().back();
  EXPECT_LE(relative_error(actual.gradient(last), expected.gradient(last)), 0.3) << last;
}

INSTANTIATE_TEST_SUITE_P(Models, WholeNet, ::testing::ValuesIn(distinct_models()), model_name);

}  // namespace
}  // namespace crossbow::testing
