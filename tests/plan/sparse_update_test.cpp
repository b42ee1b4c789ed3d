// A layer of sparse rows updates its weights where the rows have numbers, and a step comes to the
// same as that of a dense layer on all numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "device/hogwild_sgd.h"
#include "ops/sparse_rows.h"
#include "passes/passes.h"
#include "support/error_text.h"
#include "support/graph_testing.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

constexpr int64_t kFeatures = 60, kRows = 6, kNumbers = 5;
constexpr double kRateOfRows = 0.3;

class SparseUpdate : public ::testing::TestWithParam<const char*> {
 protected:
  static Graph net(bool sparse) {
    ModelSpec spec{.image = {kFeatures}, .classes = 3, .batch = kRows};
    if (sparse) {
      auto room = std::make_shared<RowRoom>();
      for (int64_t r = 0; r <= kRows; ++r) room->most.push_back(r * kNumbers);
      room->mean = kNumbers;
      spec.room = room;
    }
    return with_gradients(fuse(build_model(GetParam(), spec)));
  }
  static CompileOptions updating(const CompileOptions& options, const Optimizer& optimizer) {
    CompileOptions with = options;
    with.update = optimizer;
    return with;
  }
  /// What the sparse run's step reads, with all its numbers.
  static void feed_dense(GraphRun& dense, GraphRun& sparse) {
    const FieldAddresses& in = sparse.step().inputs;
    const auto* const extents = static_cast<const int32_t*>(in[kExtents]);
    std::vector<float> numbers(kRows * kFeatures);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int32_t i = extents[2 * r]; i < extents[2 * r + 1]; ++i) {
        const int32_t at = i - extents[0];
        numbers[r * kFeatures + static_cast<const int32_t*>(in[kColumns])[at]] =
            static_cast<const float*>(in[kValues])[at];
      }
    }
    dense.feed(kSamples, std::move(numbers));
  }
  static std::vector<std::string> kinds(const Program& program, std::string_view parameter) {
    std::vector<std::string> kinds;
    for (const Program::KernelInfo& info : program.kernel_infos()) {
      if (info.update && (info.name == parameter || info.kind.starts_with("sparse")))
        kinds.push_back(info.kind);
    }
    return kinds;
  }
  static std::string first_layer() {
    return std::string_view(GetParam()).starts_with("mlp") ? "fc1.weight" : "fc.weight";
  }
  /// Features that no row has.
  static std::vector<bool> absent(GraphRun& sparse) {
    const FieldAddresses& in = sparse.step().inputs;
    const auto* const extents = static_cast<const int32_t*>(in[kExtents]);
    std::vector<bool> absent(kFeatures, true);
    for (int32_t i = 0; i < extents[2 * kRows - 1] - extents[0]; ++i)
      absent[static_cast<size_t>(static_cast<const int32_t*>(in[kColumns])[i])] = false;
    return absent;
  }

  /// Three steps of both nets with that optimizer, from the same weights.
  static void expect_as_dense(const Optimizer& optimizer, const CompileOptions& options,
                              bool by_itself) {
    GraphRun sparse(net(true), updating(options, optimizer));
    GraphRun dense(net(false), updating(reference(), optimizer));
    feed_dense(dense, sparse);
    EXPECT_EQ(kinds(sparse.program(), first_layer()),
              std::vector<std::string>{by_itself ? "sparse_dense_grad_weights" : "sgd"});
    for (int step = 0; step < 3; ++step) {
      for (GraphRun* run : {&sparse, &dense}) {
        run->step().update = optimizer.at(kRateOfRows);
        run->run();
      }
      EXPECT_NEAR(sparse.scalar("loss"), dense.scalar("loss"), 1e-5) << step;
      ASSERT_EQ(sparse.parameter_names(), dense.parameter_names());
      for (const std::string& name : dense.parameter_names()) {
        EXPECT_LE(relative_error(sparse.get(name), dense.get(name)), 1e-5) << name << ", " << step;
      }
    }
  }
};

TEST_P(SparseUpdate, IsThatOfADenseLayer) {
  expect_as_dense(make_sgd(), cpu(), /*by_itself=*/true);
  expect_as_dense(make_sgd(), cpu(DType::f32, 2), /*by_itself=*/true);
  expect_as_dense(make_sgd(), reference(), /*by_itself=*/false);
}

/// What changes weights without a gradient passes over all of them.
TEST_P(SparseUpdate, OfOtherRulesPassesOverAllWeights) {
  expect_as_dense(make_sgd({.momentum = 0.9}), cpu(), /*by_itself=*/false);
  expect_as_dense(make_sgd({.momentum = 0.9, .nesterov = true}), cpu(), /*by_itself=*/false);
  expect_as_dense(make_sgd({.weight_decay = 0.01}), cpu(), /*by_itself=*/false);
  CompileOptions elsewhere = cpu();
  elsewhere.updates_in_place = false;
  expect_as_dense(make_sgd(), elsewhere, /*by_itself=*/false);
}

TEST_P(SparseUpdate, TouchesOnlyFeaturesThatRowsHave) {
  GraphRun run(net(true), updating(cpu(), make_sgd()));
  const std::vector<bool> is_absent = absent(run);
  EXPECT_GT(std::count(is_absent.begin(), is_absent.end(), true), kFeatures / 4);
  std::vector<double> weights = run.get(first_layer());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (is_absent[i % kFeatures]) weights[i] = NAN;
  }
  run.set(first_layer(), weights);
  run.step().update = make_sgd().at(kRateOfRows);
  run.run();
  EXPECT_TRUE(std::isfinite(run.scalar("loss")));
  const std::vector<double> after = run.get(first_layer());
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(std::isnan(after[i]), is_absent[i % kFeatures]) << i;
  }
}

/// Its own copy of the weights is neither read nor written; the shared ones only where rows have
/// numbers, and as plain SGD would.
TEST_P(SparseUpdate, OfLiveWeightsReadsAndChangesTheSharedOnes) {
  const Optimizer rule = make_hogwild_sgd(0);
  GraphRun live(net(true), updating(cpu(), rule)), alone(net(true), updating(cpu(), make_sgd()));
  const Replica& replica = live.replica();
  std::memcpy(replica.slots[0].data(), replica.parameters.data(), replica.parameters.size());
  const std::string name = first_layer();
  const auto* const slot = live.program().parameters()->find(name);
  const std::vector<bool> is_absent = absent(live);
  live.set(name, std::vector<double>(static_cast<size_t>(slot->layout.shape.elements()), NAN));
  const auto shared = [&] {
    std::vector<double> values(static_cast<size_t>(slot->layout.shape.elements()));
    read_tensor(slot->layout, replica.slots[0].as<float>() + slot->offset,
                std::span<double>(values));
    return values;
  };
  const std::vector<double> before = shared();
  for (int step = 0; step < 3; ++step) {
    live.step().update = rule.at(kRateOfRows);
    alone.step().update = make_sgd().at(kRateOfRows);
    live.run();
    alone.run();
    EXPECT_EQ(live.scalar("loss"), alone.scalar("loss")) << step;
  }
  const std::vector<double> after = shared();
  EXPECT_EQ(after, alone.get(name));
  for (size_t i = 0; i < after.size(); ++i) {
    if (is_absent[i % kFeatures]) {
      EXPECT_EQ(after[i], before[i]) << i;
    }
  }
  for (const double own : live.get(name)) EXPECT_TRUE(std::isnan(own));
}

/// With weight decay all weights change, and then each program has its own.
TEST_P(SparseUpdate, OfLiveWeightsWithDecayHasWeightsOfItsOwn) {
  const Optimizer rule = make_hogwild_sgd(0.01);
  GraphRun live(net(true), updating(cpu(), rule));
  GraphRun alone(net(true), updating(cpu(), make_sgd({.weight_decay = 0.01})));
  const Replica& replica = live.replica();
  std::memcpy(replica.slots[0].data(), replica.parameters.data(), replica.parameters.size());
  for (int step = 0; step < 2; ++step) {
    live.step().update = rule.at(kRateOfRows);
    alone.step().update = make_sgd({.weight_decay = 0.01}).at(kRateOfRows);
    live.run();
    alone.run();
  }
  EXPECT_LE(relative_error(live.get(first_layer()), alone.get(first_layer())), 1e-6);
}

TEST_P(SparseUpdate, IsRefusedWhereWeightsAreLeftElsewhere) {
  const auto program = Program::compile(net(true), updating(cpu(), make_sgd()));
  const Replica replica(*program->parameters(), /*with_gradients=*/false);
  const Replica next(*program->parameters(), /*with_gradients=*/false);
  const Workspace workspace(find_device("cpu"), program->arena_bytes(), program->input_bytes());
  ReplicaView view = replica;
  view.next_parameters = next.parameters.data();
  EXPECT_EQ(error_of([&] { Execution(program, view, workspace); }),
            "the program updates weights in place, and cannot leave them elsewhere");
}

/// Both forms have the same parameters, drawn alike, and the same values in row-major order.
TEST_P(SparseUpdate, HasTheWeightsOfADenseLayer) {
  GraphRun sparse(net(true), cpu()), dense(net(false), cpu());
  for (const std::string& name : dense.parameter_names()) {
    EXPECT_EQ(sparse.get(name), dense.get(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SparseUpdate,
                         ::testing::Values("logistic", "mlp:layers=2,width=70",
                                           "mlp:layers=1,width=130,bias=0"),
                         [](const auto& info) { return "net" + std::to_string(info.index); });

}  // namespace
}  // namespace crossbow::testing
