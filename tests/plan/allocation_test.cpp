// A step allocates nothing in our code: allocations whose caller lies in this executable, rather
// than in oneDNN or the OpenMP runtime, are counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "learner/quadratic.h"
#include "passes/passes.h"
#include "support/model_testing.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1  // sanitizers bring an operator new of their own
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
extern "C" char __executable_start, etext;  // of the linker

namespace {
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
}  // namespace

// Not inlined, lest the return address be that of a caller further up.
__attribute__((noinline)) void* operator new(size_t size) {
  const char* caller = static_cast<const char*>(__builtin_return_address(0));
  if (counting && caller >= &__executable_start && caller < &etext) ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace crossbow::testing {
namespace {

int allocations_of(GraphRun& run) {
  allocations = 0;
  counting = true;
  run.run();
  counting = false;
  return allocations;
}

TEST(Allocations, AreCounted) {
  counting = true;
  const auto before = allocations.load();
  delete new int(1);
  std::vector<int>* v = new std::vector<int>(100);
  counting = false;
  delete v;
  EXPECT_GE(allocations - before, 2);
}

TEST(Allocations, AStepMakesNone) {
  for (const char* name : {"lenet", "resnet-20", "mlp"}) {
    const Graph graph = with_gradients(fuse(small_model(find_model(name))));
    for (const CompileOptions& options :
         {reference(DType::f32), cpu(), cpu(DType::f32, 2), cpu(DType::bf16)}) {
      GraphRun run(graph, options);
      run.run();
      EXPECT_EQ(allocations_of(run), 0) << name << ", " << options.device << ", "
                                        << name_of(options.precision) << ", " << options.threads;
    }
  }
}

/// A segment allocates when it begins, but no more for many iterations than for few.
TEST(Allocations, LearnersThatSynchroniseMakeNone) {
  for (const char* sync : {"sma-paper", "ssgd", "local-sgd"}) {
    QuadraticData data;
    QuadraticRun run{.sync = sync, .options = {.learners = 3, .momentum = 0.9}};
    run.device = "cpu";
    QuadraticEngine engine(run);
    engine.losses.resize(100 * kBatches);
    const auto allocations_in = [&](int64_t batches) {
      Segment segment = engine.segment(data, 0, batches);
      segment.epoch_batches = batches + 1;
      allocations = 0;
      counting = true;
      engine->run(segment);
      counting = false;
      return allocations.load();
    };
    allocations_in(kBatches);
    EXPECT_EQ(allocations_in(kBatches), allocations_in(100 * kBatches)) << sync;
  }
}

}  // namespace
}  // namespace crossbow::testing
#endif
