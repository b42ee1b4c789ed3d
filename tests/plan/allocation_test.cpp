// A step allocates nothing in our code: allocations whose caller lies in this executable, rather
// than in oneDNN or the OpenMP runtime, are counted.
#include "support/allocations.h"

#ifndef CROSSBOW_SANITIZED
#include <filesystem>
#include <new>
#include <string>

#include "learner/quadratic.h"
#include "passes/passes.h"
#include "support/model_testing.h"
#include "train/session.h"

namespace crossbow::testing {
namespace {

/// By calls, as a compiler may leave out what it finds between `new` and `delete`.
TEST(Allocations, AreCounted) {
  const Allocations two = allocations_of([] {
    ::operator delete(::operator new(1));
    ::operator delete(::operator new(100));
  });
  EXPECT_EQ(two.ours, 2);
  EXPECT_EQ(two.all, 2);
  const std::string longer_than_a_string_holds(100, 'x');
  std::filesystem::path path;
  const Allocations library = allocations_of([&] { path = longer_than_a_string_holds; });
  EXPECT_GT(library.all, 0);
}

TEST(Allocations, AStepMakesNone) {
  for (const char* name : {"lenet", "resnet-20", "mlp"}) {
    const Graph graph = with_gradients(fuse(small_model(find_model(name))));
    for (const CompileOptions& options :
         {reference(DType::f32), cpu(), cpu(DType::f32, 2), cpu(DType::bf16)}) {
      GraphRun run(graph, options);
      run.run();
      EXPECT_EQ(allocations_of([&] { run.run(); }).ours, 0)
          << name << ", " << options.device << ", " << name_of(options.precision) << ", "
          << options.threads;
    }
  }
}

TEST(Allocations, AStepOfASessionMakesNone) {
  for (const double clip_norm : {0.0, 1.0}) {
    SessionOptions options{.image = {1, 28, 28}, .classes = 10, .batch = 4, .lr = 0.01};
    if (clip_norm > 0) options.clip_norm = clip_norm;
    Session session("lenet", options);
    const std::vector<float> images(4 * 28 * 28, 0.5f);
    const std::vector<int32_t> labels{0, 1, 2, 3};
    session.step(images, labels);
    EXPECT_EQ(allocations_of([&] { session.step(images, labels); }).ours, 0) << clip_norm;
  }
}

/// A segment allocates when it begins, but no more for many iterations than for few.
TEST(Allocations, LearnersThatSynchroniseMakeNone) {
  for (const char* sync : {"sma-paper", "sma-delayed", "ssgd", "local-sgd"}) {
    QuadraticData data;
    QuadraticRun run{.sync = sync, .options = {.learners = 3, .momentum = 0.9}};
    run.device = "cpu";
    QuadraticEngine engine(run);
    engine.losses.resize(100 * kBatches);
    const auto allocations_in = [&](int64_t batches) {
      Segment segment = engine.segment(data, 0, batches);
      segment.epoch_batches = batches + 1;
      return allocations_of([&] { engine->run(segment); }).ours;
    };
    allocations_in(kBatches);
    EXPECT_EQ(allocations_in(kBatches), allocations_in(100 * kBatches)) << sync;
  }
}

}  // namespace
}  // namespace crossbow::testing
#endif
