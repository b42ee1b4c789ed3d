// Dense layers whose gradient's kernel updates the weights at once: the same bits as a gradient and
// a pass of the optimizer's over all weights.
#include <gtest/gtest.h>

#include "device/hogwild_sgd.h"
#include "ops/activation.h"
#include "ops/dense.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

constexpr double kRate = 0.3;

Tensor weights(Graph& graph, Shape shape, const std::string& name) {
  return parameter(graph, shape, Initialiser::uniform(-0.2f, 0.2f), name);
}

void end_with_loss(Graph& graph, Tensor y) {
  graph.set_output("loss", mean_squared_error(y, input(graph, y.shape(), 1)).value);
  differentiate(graph, graph.output("loss"));
}

/// Two layers of whole blocks, and a last one of three outputs.
Graph net(int64_t rows) {
  Graph graph("net");
  Tensor x = input(graph, {rows, 64}, 0);
  for (const int64_t outputs : {128, 64, 3}) {
    const std::string name = "fc" + std::to_string(outputs);
    x = dense(x, weights(graph, {outputs, x.shape()[1]}, name + ".weight"),
              weights(graph, {outputs}, name + ".bias"));
    if (outputs > 3) x = sigmoid(x);
  }
  end_with_loss(graph, x);
  return graph;
}

/// A layer that is passed twice.
Graph net_of_tied_weights() {
  Graph graph("tied");
  const Tensor x = input(graph, {16, 64}, 0), w = weights(graph, {64, 64}, "fc.weight");
  end_with_loss(graph, dense(sigmoid(dense(x, w, Tensor{})), w, Tensor{}));
  return graph;
}

CompileOptions updating(const Optimizer& optimizer, int threads = 1) {
  CompileOptions options = cpu(DType::f32, threads);
  options.update = optimizer;
  return options;
}

int64_t updates_at_once(const Program& program) {
  return std::ranges::count_if(program.kernel_infos(), [](const Program::KernelInfo& info) {
    return info.update && info.kind == "dense_grad_weights";
  });
}

/// Numbers like parameters, with zeros in the padding.
void draw(const ParameterLayout& layout, const Buffer& buffer, uint64_t seed) {
  Replica drawn(layout);
  initialise(layout, drawn, seed);
  std::memcpy(buffer.data(), drawn.parameters.data(), buffer.size());
}

void copy(const Buffer& from, const Buffer& to) {
  std::memcpy(to.data(), from.data(), from.size());
}

/// A gradient, and then passes over all weights.
class Apart {
 public:
  Apart(const Graph& graph, const Optimizer& optimizer, int threads = 1)
      : optimizer_(optimizer),
        run_(graph, cpu(DType::f32, threads)),
        slots_(layout(), true, optimizer.slots.size()) {
    for (const Buffer& slot : slots()) draw(layout(), slot, 2);
  }

  const ParameterLayout& layout() const { return *run_.program().parameters(); }
  const Replica& replica() const { return run_.replica(); }
  std::span<const Buffer> slots() const { return slots_.slots; }
  GraphRun& gradient() { return run_; }

  /// From the replica's weights to `next`.
  void step(const UpdateStep& step, const std::byte* central, std::byte* next) {
    run_.run();
    for (const auto& [first, elements, decay] :
         layout().pieces(optimizer_, layout().parameter_elements)) {
      const int64_t at = first * static_cast<int64_t>(sizeof(float));
      vector_math("cpu", DType::f32)
          .update(*optimizer_.rule, step,
                  {replica().parameters.data() + at, replica().gradients.data() + at,
                   addresses_of(slots(), at), central ? central + at : nullptr, next + at, nullptr,
                   decay},
                  elements);
    }
  }
  void step_in_place() { step(optimizer_.at(kRate), nullptr, replica().parameters.data()); }

 private:
  const Optimizer optimizer_;
  GraphRun run_;
  Replica slots_;
};

class DenseUpdate : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto layout = Program::compile(net(16), cpu())->parameters();
    const std::vector<Layout::Block> ours{{1, 16}, {0, 64}};
    if (layout->find("fc128.weight")->layout.blocks != ours)
      GTEST_SKIP() << "this machine's library has other blocks of weights than our loops";
  }

  /// Three steps.
  static void expect_same_bits(const Graph& graph, const Optimizer& optimizer, int threads,
                               int64_t layers) {
    GraphRun at_once(graph, updating(optimizer, threads));
    EXPECT_EQ(updates_at_once(at_once.program()), layers);
    at_once.step().update = optimizer.at(kRate);
    Apart apart(graph, optimizer, threads);
    const std::span<const Buffer> slots = apart.slots();
    for (size_t i = 0; i < slots.size(); ++i) copy(slots[i], at_once.replica().slots[i]);
    for (int step = 0; step < 3; ++step) {
      at_once.run();
      apart.step_in_place();
      EXPECT_EQ(at_once.scalar("loss"), apart.gradient().scalar("loss")) << step;
      EXPECT_TRUE(same_bytes(at_once.replica().parameters, apart.replica().parameters)) << step;
      for (size_t i = 0; i < slots.size(); ++i)
        EXPECT_TRUE(same_bytes(at_once.replica().slots[i], slots[i])) << step;
    }
  }
};

/// Slots hold what a live rule finds there: weights that others have changed.
TEST_F(DenseUpdate, HasTheBitsOfAPassOverAllWeights) {
  const WeightDecay of_matrices(0.01, /*of_vectors=*/false);
  for (const Optimizer& optimizer :
       {make_sgd(), make_sgd({.momentum = 0.9, .weight_decay = of_matrices}), some_optimizer(),
        make_hogwild_sgd(0), make_hogwild_sgd(of_matrices),
        make_hogwild_sgd(0.01, /*overwrites=*/true)}) {
    for (const auto& [rows, threads] : {std::pair(16, 1), {5, 2}, {256, 2}}) {
      SCOPED_TRACE(std::string(optimizer.rule->name) + ", rows " + std::to_string(rows));
      expect_same_bits(net(rows), optimizer, threads, /*layers=*/2);
    }
  }
}

TEST_F(DenseUpdate, IsNotOfManyRowsNorOfWeightsThatTwoLayersHave) {
  expect_same_bits(net(257), some_optimizer(), 1, /*layers=*/0);
  expect_same_bits(net_of_tied_weights(), some_optimizer(), 1, /*layers=*/0);
}

/// Steps of few rows and of many, in turns, on the same weights.
TEST_F(DenseUpdate, SharesWeightsAndSlotsWithAPass) {
  const Optimizer optimizer = some_optimizer();
  GraphRun few(net(16), updating(optimizer)), few_apart(net(16), cpu());
  CompileOptions options = updating(optimizer);
  options.parameters = few.program().parameters();
  GraphRun many(net(300), options);
  options.update.reset();
  GraphRun many_apart(net(300), options);
  const auto hand_over = [](const GraphRun& from, const GraphRun& to) {
    copy(from.replica().parameters, to.replica().parameters);
    copy(from.replica().slots[0], to.replica().slots[0]);
  };
  for (GraphRun* run : {&few, &many, &few_apart, &many_apart})
    run->step().update = optimizer.at(kRate);
  for (int step = 0; step < 2; ++step) {
    few.run();
    hand_over(few, many);
    many.run();
    hand_over(many, few);
    few_apart.run();
    few_apart.update();
    hand_over(few_apart, many_apart);
    many_apart.run();
    many_apart.update();
    hand_over(many_apart, few_apart);
    EXPECT_TRUE(same_bytes(few.replica().parameters, few_apart.replica().parameters)) << step;
    EXPECT_TRUE(same_bytes(few.replica().slots[0], few_apart.replica().slots[0])) << step;
  }
}

class DenseUpdateElsewhere : public DenseUpdate {
 protected:
  explicit DenseUpdateElsewhere(const Optimizer& optimizer = some_optimizer())
      : optimizer_(optimizer),
        apart_(net(16), optimizer),
        next_(apart_.layout(), true, 1),
        expected_(apart_.layout()),
        central_(apart_.layout()) {
    draw(apart_.layout(), central_.parameters, 3);
    copy(apart_.slots()[0], next_.slots[0]);
  }

  /// One step of a program that updates, on the weights of `apart_` and the slot of `next_`.
  void run_at_once(const UpdateStep& update, std::byte* next) {
    CompileOptions options = updating(optimizer_);
    options.updates_in_place = false;
    const auto program = Program::compile(net(16), options);
    ASSERT_EQ(updates_at_once(*program), 2);
    const Workspace workspace(find_device("cpu"), program->arena_bytes(), program->input_bytes());
    ReplicaView view = apart_.replica();
    view.slots = addresses_of(next_.slots);
    view.central = central_.parameters.data();
    view.next_parameters = next;
    Step step = apart_.gradient().step();
    step.update = update;
    Execution(program, view, workspace).run(step);
  }
  void expect_as_apart(const UpdateStep& step) {
    run_at_once(step, next_.parameters.data());
    apart_.step(step, central_.parameters.data(), expected_.parameters.data());
    EXPECT_TRUE(same_bytes(next_.parameters, expected_.parameters));
    EXPECT_TRUE(same_bytes(next_.slots[0], apart_.slots()[0]));
  }

  const Optimizer optimizer_;
  Apart apart_;
  Replica next_, expected_, central_;
};

TEST_F(DenseUpdateElsewhere, LeavesWeightsThatArePulledTowardsOthers) {
  expect_as_apart(optimizer_.at(kRate, /*pull=*/0.4));
  EXPECT_FALSE(same_bytes(next_.parameters, apart_.replica().parameters));
}

TEST_F(DenseUpdateElsewhere, ReadsNothingThatItIsNotPulledTowards) {
  std::ranges::fill(
      std::span(central_.parameters.as<float>(), central_.parameters.size() / sizeof(float)), NAN);
  expect_as_apart(optimizer_.at(kRate));
}

class LiveDenseUpdate : public DenseUpdateElsewhere {
 protected:
  LiveDenseUpdate() : DenseUpdateElsewhere(make_hogwild_sgd(0.01)) {}
};

TEST_F(LiveDenseUpdate, LeavesNoWeightsWhereNobodyReadsThem) {
  const Replica before(apart_.layout());
  copy(apart_.replica().parameters, before.parameters);
  run_at_once(optimizer_.at(kRate), nullptr);
  EXPECT_TRUE(same_bytes(apart_.replica().parameters, before.parameters));
  apart_.step(optimizer_.at(kRate), nullptr, expected_.parameters.data());
  EXPECT_TRUE(same_bytes(next_.slots[0], apart_.slots()[0]));
}

}  // namespace
}  // namespace crossbow::testing
