// Dense layers whose gradient's kernel updates the weights at once: the same bits as a gradient and
// a pass of the optimizer's over all weights.
#include <gtest/gtest.h>

#include "device/hogwild_sgd.h"
#include "ops/activation.h"
#include "ops/dense.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

/// Two layers of whole blocks, and a last one of three outputs.
Graph net(int64_t rows) {
  Graph graph("net");
  Tensor x = input(graph, {rows, 64}, 0);
  for (const int64_t outputs : {128, 64, 3}) {
    const std::string name = "fc" + std::to_string(outputs);
    const Initialiser drawn = Initialiser::uniform(-0.2f, 0.2f);
    const Tensor weights = parameter(graph, {outputs, x.shape()[1]}, drawn, name + ".weight");
    x = dense(x, weights, parameter(graph, {outputs}, drawn, name + ".bias"));
    if (outputs > 3) x = sigmoid(x);
  }
  graph.set_output("loss", mean_squared_error(x, input(graph, x.shape(), 1)).value);
  differentiate(graph, graph.output("loss"));
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

/// A gradient, and then a pass over all weights: from the replica's to `next`.
class TwoPasses {
 public:
  TwoPasses(int64_t rows, const Optimizer& optimizer, int threads = 1)
      : optimizer_(optimizer),
        run_(net(rows), cpu(DType::f32, threads)),
        slots_(layout(), true, optimizer.slots.size()) {}

  const ParameterLayout& layout() const { return *run_.program().parameters(); }
  const Replica& replica() const { return run_.replica(); }
  std::span<const Buffer> slots() const { return slots_.slots; }
  GraphRun& gradient() { return run_; }

  void step(const UpdateStep& step, const std::byte* central, std::byte* next) {
    run_.run();
    vector_math("cpu", DType::f32)
        .update(*optimizer_.rule, step,
                {replica().parameters.data(), replica().gradients.data(), addresses_of(slots()),
                 central, next},
                layout().parameter_elements);
  }

 private:
  const Optimizer optimizer_;
  GraphRun run_;
  Replica slots_;
};

class DenseUpdate : public ::testing::Test {
 protected:
  void SetUp() override {
    if (updates_at_once(*Program::compile(net(16), updating(make_sgd()))) == 0)
      GTEST_SKIP() << "the library of this machine has no weights in the blocks of our loops";
  }
};

/// Slots hold what a live rule finds there: weights that others have changed.
TEST_F(DenseUpdate, HasTheBitsOfAPassOverAllWeights) {
  for (const Optimizer& optimizer :
       {make_sgd(), make_sgd({.momentum = 0.9, .weight_decay = 0.01}), some_optimizer(),
        make_hogwild_sgd(0), make_hogwild_sgd(0.01), make_hogwild_sgd(0.01, /*overwrites=*/true)}) {
    for (const auto& [rows, threads] : {std::pair(16, 1), {5, 2}, {256, 2}}) {
      SCOPED_TRACE(std::string(optimizer.rule->name) + ", rows " + std::to_string(rows));
      GraphRun at_once(net(rows), updating(optimizer, threads));
      EXPECT_EQ(updates_at_once(at_once.program()), 2);
      TwoPasses apart(rows, optimizer, threads);
      for (size_t i = 0; i < apart.slots().size(); ++i) {
        draw(apart.layout(), apart.slots()[i], 2);
        copy(apart.slots()[i], at_once.replica().slots[i]);
      }
      at_once.step().update = optimizer.at(0.3);
      for (int step = 0; step < 3; ++step) {
        at_once.run();
        apart.step(optimizer.at(0.3), nullptr, apart.replica().parameters.data());
        EXPECT_EQ(at_once.scalar("loss"), apart.gradient().scalar("loss")) << step;
        EXPECT_TRUE(same_bytes(at_once.replica().parameters, apart.replica().parameters)) << step;
        for (size_t i = 0; i < apart.slots().size(); ++i)
          EXPECT_TRUE(same_bytes(at_once.replica().slots[i], apart.slots()[i])) << step;
      }
    }
  }
}

class DenseUpdateElsewhere : public DenseUpdate {
 protected:
  /// One step of a program that updates, on the memory of `apart`, whose slots are `slots` in it.
  static void run_at_once(TwoPasses& apart, const Optimizer& optimizer,
                          std::span<const Buffer> slots, const UpdateStep& update,
                          const std::byte* central, std::byte* next) {
    CompileOptions options = updating(optimizer);
    options.updates_in_place = false;
    const auto program = Program::compile(net(16), options);
    EXPECT_EQ(updates_at_once(*program), 2);
    const Workspace workspace(find_device("cpu"), program->arena_bytes(), program->input_bytes());
    ReplicaView view = apart.replica();
    view.slots = addresses_of(slots);
    view.central = central;
    view.next_parameters = next;
    Step step = apart.gradient().step();
    step.update = update;
    Execution(program, view, workspace).run(step);
  }
};

TEST_F(DenseUpdateElsewhere, LeavesWeightsThatArePulledTowardsOthers) {
  const Optimizer optimizer = some_optimizer();
  TwoPasses apart(16, optimizer);
  const Replica central(apart.layout()), next(apart.layout(), true, 1), expected(apart.layout());
  draw(apart.layout(), central.parameters, 3);
  draw(apart.layout(), apart.slots()[0], 2);
  copy(apart.slots()[0], next.slots[0]);
  const UpdateStep step = optimizer.at(0.3, /*pull=*/0.4);
  run_at_once(apart, optimizer, next.slots, step, central.parameters.data(),
              next.parameters.data());
  apart.step(step, central.parameters.data(), expected.parameters.data());
  EXPECT_TRUE(same_bytes(next.parameters, expected.parameters));
  EXPECT_TRUE(same_bytes(next.slots[0], apart.slots()[0]));
  EXPECT_FALSE(same_bytes(next.parameters, apart.replica().parameters));
}

TEST_F(DenseUpdateElsewhere, LeavesNoWeightsWhereNobodyReadsThem) {
  const Optimizer optimizer = make_hogwild_sgd(0.01);
  TwoPasses apart(16, optimizer);
  const Replica shared(apart.layout(), true, 1), before(apart.layout()), taken(apart.layout());
  draw(apart.layout(), apart.slots()[0], 2);
  copy(apart.slots()[0], shared.slots[0]);
  copy(apart.replica().parameters, before.parameters);
  run_at_once(apart, optimizer, shared.slots, optimizer.at(0.3), nullptr, nullptr);
  EXPECT_TRUE(same_bytes(apart.replica().parameters, before.parameters));
  apart.step(optimizer.at(0.3), nullptr, taken.parameters.data());
  EXPECT_TRUE(same_bytes(shared.slots[0], apart.slots()[0]));
}

}  // namespace
}  // namespace crossbow::testing
