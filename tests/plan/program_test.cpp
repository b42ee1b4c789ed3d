// Compiled programs: what they refuse, what they share, and that memory planning changes nothing.
#include "plan/program.h"

#include <algorithm>

#include "passes/passes.h"
#include "plan/row_major.h"
#include "support/error_text.h"
#include "support/model_testing.h"

namespace crossbow::testing {
namespace {

const Model& lenet() {
  return find_model("lenet");
}

TEST(Program, RefusesADeviceThatLacksAnOp) {
  CompileOptions options;
  options.device = "abacus";
  const std::string error = error_of([&] { Program::compile(small_model(lenet()), options); });
  EXPECT_NE(error.find("abacus"), std::string::npos) << error;
  EXPECT_NE(error.find("kernel"), std::string::npos) << error;
}

TEST(Program, RefusesParametersOfAnotherModel) {
  CompileOptions options = reference();
  options.parameters =
      Program::compile(small_model(find_model("logistic")), reference())->parameters();
  const std::string error = error_of([&] { Program::compile(small_model(lenet()), options); });
  EXPECT_NE(error.find("conv1.weight"), std::string::npos) << error;
}

TEST(Program, RefusesAnArenaThatIsTooSmall) {
  const auto program = Program::compile(small_model(lenet()), reference());
  const Replica replica(*program->parameters());
  const Workspace small(find_device("cpu"), program->arena_bytes() - 1, program->input_bytes());
  EXPECT_THROW(Execution(program, replica, small), Error);
}

TEST(Program, NamesTheResultsItLacks) {
  const GraphRun run(small_model(lenet()));
  EXPECT_THROW(run.values("perplexity"), Error);
}

TEST(Program, TellsForwardFromBackward) {
  const auto program = Program::compile(with_gradients(small_model(lenet())), cpu());
  double forward = 0, backward = 0;
  for (const Program::KernelInfo& info : program->kernel_infos())
    (info.backward ? backward : forward) += info.flops;
  EXPECT_GT(forward, 0);
  EXPECT_GT(backward, 1.5 * forward);  // less than twice: nothing flows back into the images
  EXPECT_LT(backward, 2 * forward);
  EXPECT_EQ(program->flops(), forward + backward);
}

TEST(Program, TimesEveryOp) {
  GraphRun run(with_gradients(small_model(lenet())), cpu());
  std::vector<double> seconds(run.program().kernel_infos().size());
  run.run_timed(seconds);
  for (double s : seconds) EXPECT_GT(s, 0);
}

TEST(Program, ReusesMemory) {
  const Graph graph = with_gradients(fuse(small_model(find_model("resnet-20"))));
  const auto program = Program::compile(graph, cpu());
  EXPECT_LT(2 * program->arena_bytes(), program->arena_bytes_without_reuse());
}

/// Where programs are few. What lags keeps its memory.
TEST(Program, GradientsLag) {
  const Graph graph = with_gradients(fuse(small_model(find_model("resnet-20"))));
  CompileOptions options = on_device("late");
  const size_t lagging = Program::compile(graph, options)->arena_bytes();
  options.programs = find_device("late").crowd();
  EXPECT_GT(lagging, Program::compile(graph, options)->arena_bytes());
}

/// Training, the last partial batch and evaluation: one replica, one arena.
TEST(Program, ProgramsOfAModelShareReplicaAndArena) {
  const Graph net = fuse(small_model(lenet()));
  const Graph partial_net = with_gradients(with_batch(net, 3)), eval_net = for_inference(net);
  for (CompileOptions options : {reference(), cpu()}) {
    const auto train = Program::compile(with_gradients(net), options);
    GraphRun partial_alone(partial_net, options), eval_alone(eval_net, options);
    options.parameters = train->parameters();
    const auto partial = Program::compile(partial_net, options);
    const auto eval = Program::compile(eval_net, options);
    EXPECT_EQ(partial->parameters(), train->parameters());

    Replica replica(*train->parameters());
    initialise(*train->parameters(), replica, 1);
    const Workspace workspace(
        find_device(options.device),
        std::max({train->arena_bytes(), partial->arena_bytes(), eval->arena_bytes()}),
        train->input_bytes());
    const Execution train_run(train, replica, workspace), partial_run(partial, replica, workspace),
        eval_run(eval, replica, workspace);
    partial_alone.run();
    eval_alone.run();
    train_run.run(eval_alone.step());  // leaves its traces in arena and gradients
    eval_run.run(eval_alone.step());
    EXPECT_LE(relative_error(eval_run.values("logits"), eval_alone.values("logits")), 1e-5);
    partial_run.run(eval_alone.step());
    EXPECT_NEAR(partial_run.scalar("loss"), partial_alone.scalar("loss"), 1e-5);
    for (const auto& slot : train->parameters()->parameters) {
      std::vector<double> gradient(slot.layout.shape.elements());
      read_tensor(slot.layout,
                  replica.gradients.data() + slot.offset * size_of(train->parameters()->dtype),
                  std::span<double>(gradient));
      EXPECT_LE(relative_error(gradient, partial_alone.gradient(slot.name)), 1e-5) << slot.name;
    }
  }
}

class MemoryPlanOfModel : public ::testing::TestWithParam<const Model*> {};

/// Every result, gradient and state, bit for bit, over two steps in the same memory.
TEST_P(MemoryPlanOfModel, ChangesNoBit) {
  const Graph net = small_model(*GetParam());
  for (CompileOptions options : {cpu(), cpu(DType::bf16)}) {
    // Unfused nets compute more in place.
    const bool fused = options.precision == DType::bf16;
    const Graph graph = with_gradients(fused ? fuse(net) : net);
    GraphRun planned(graph, options);
    options.reuse_memory = false;
    GraphRun apart(graph, options);
    EXPECT_LE(planned.program().arena_bytes(), apart.program().arena_bytes());
    EXPECT_EQ(planned.program().arena_bytes_without_reuse(), apart.program().arena_bytes());
    for (int step = 0; step < 2; ++step) {
      planned.run();
      apart.run();
      for (const char* result : {"logits", "loss", "accuracy"}) {
        if (!graph.outputs().contains(result)) continue;
        EXPECT_EQ(planned.values(result), apart.values(result)) << result;
      }
      EXPECT_TRUE(same_bytes(planned.replica().gradients, apart.replica().gradients));
      EXPECT_TRUE(same_bytes(planned.replica().states, apart.replica().states));
    }
  }
}

/// Weights, slots and states after two steps of a program that updates them, and of one that
/// leaves a gradient for the optimizer.
TEST_P(MemoryPlanOfModel, ChangesNoBitOfAnUpdate) {
  const Graph net = small_model(*GetParam());
  for (CompileOptions options : {cpu(), cpu(DType::bf16)}) {
    const bool fused = options.precision == DType::bf16;
    const Graph graph = with_gradients(fused ? fuse(net) : net);
    GraphRun afterwards(graph, options);
    options.update = some_optimizer();
    GraphRun planned(graph, options);
    options.reuse_memory = false;
    GraphRun apart(graph, options);
    for (int step = 0; step < 2; ++step) {
      for (GraphRun* run : {&afterwards, &planned, &apart}) {
        run->step().update = some_optimizer().at(0.05);
        run->run();
      }
      afterwards.update();
      for (const GraphRun* run : {&planned, &apart}) {
        const Replica &a = run->replica(), &b = afterwards.replica();
        EXPECT_TRUE(same_bytes(a.parameters, b.parameters)) << "step " << step;
        EXPECT_TRUE(same_bytes(a.slots[0], b.slots[0])) << "step " << step;
        EXPECT_TRUE(same_bytes(a.states, b.states)) << "step " << step;
        EXPECT_EQ(run->values("loss"), afterwards.values("loss"));
      }
    }
  }
}

/// On a device that computes gradients of weights beside what follows, here as late as may be: in
/// two steps, of which the second is recorded.
TEST_P(MemoryPlanOfModel, ChangesNoBitWhereGradientsLag) {
  const Graph net = small_model(*GetParam());
  for (CompileOptions options : {on_device("late"), on_device("late", DType::bf16)}) {
    const bool fused = options.precision == DType::bf16;
    const Graph graph = with_gradients(fused ? fuse(net) : net);
    GraphRun planned(graph, options), at_once(graph, cpu(options.precision));
    options.reuse_memory = false;
    GraphRun apart(graph, options);
    for (int step = 0; step < 2; ++step) {
      for (GraphRun* run : {&planned, &apart, &at_once}) run->run();
      EXPECT_TRUE(same_bytes(planned.replica().gradients, apart.replica().gradients));
      EXPECT_TRUE(same_bytes(planned.replica().gradients, at_once.replica().gradients));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryPlanOfModel, ::testing::ValuesIn(distinct_models()),
                         model_name);

}  // namespace
}  // namespace crossbow::testing
