// Random nets on the CPU device: each of their nodes against the reference, and the whole programs
// against themselves without what makes them fast, bit for bit.
//
// CROSSBOW_NETS says how many nets (instead of a few dozen), CROSSBOW_FIRST_NET the first one's
// seed. CROSSBOW_ISA and ONEDNN_MAX_CPU_ISA limit the instruction set as in any run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "core/error.h"
#include "kernels/cpu/loops.h"
#include "kernels/precision.h"
#include "passes/passes.h"
#include "support/model_testing.h"
#include "support/node_oracle.h"
#include "support/random_net.h"

namespace crossbow::testing {
namespace {

/// Of the implementations of a layer, one that the seed and the layer choose.
class RandomChooser : public AlgorithmChooser {
 public:
  explicit RandomChooser(uint64_t seed) : seed_(seed) {}
  size_t choose(const std::string& key, std::span<const std::string> candidates,
                const std::function<double(size_t)>&) override {
    return (std::hash<std::string>()(key) + seed_) % candidates.size();
  }

 private:
  uint64_t seed_;
};

/// What a net is compiled with besides reuse and update, which are always tried both ways.
struct Setting {
  DType precision;
  int threads;
  bool fused, first_choice, laid_out_for_other_batch;

  explicit Setting(uint64_t seed) {
    Rng rng(seed, Purpose::shuffle);
    precision = computed_precision("cpu", rng.below(2) ? DType::bf16 : DType::f32);
    threads = 1 + static_cast<int>(rng.below(2));
    fused = rng.below(4) > 0;
    first_choice = rng.below(2);
    laid_out_for_other_batch = rng.below(3) == 0;
  }
  std::string str() const {
    return fmt::format("{}, {} threads{}{}{}", name_of(precision), threads, fused ? ", fused" : "",
                       first_choice ? "" : ", other implementations",
                       laid_out_for_other_batch ? ", laid out for another batch" : "");
  }
};

/// One net in one setting.
class Trial {
 public:
  explicit Trial(uint64_t seed)
      : net_(random_net(seed)), setting_(seed), chooser_(seed), options_(cpu()) {
    forward_ = setting_.fused ? fuse(net_.graph) : net_.graph;
    graph_ = with_gradients(forward_);
    options_ = cpu(setting_.precision, setting_.threads);
    if (!setting_.first_choice) options_.chooser = &chooser_;
    if (setting_.laid_out_for_other_batch) {
      options_.parameters =
          Program::compile(with_gradients(with_batch(forward_, 7)), options_)->parameters();
    }
  }

  std::string str() const { return setting_.str() + "\n" + net_.text; }

  /// Of training, and of the evaluation that shares its parameters.
  void expect_every_node_as_reference() const {
    CompileOptions options = options_;
    options.reuse_memory = false;
    expect_as_reference(graph_, options);
    options.parameters = Program::compile(graph_, options)->parameters();
    expect_as_reference(for_inference(forward_), options);
  }

  /// The gradient in two steps, and what an optimizer makes of it afterwards, are what programs
  /// without reuse of memory have, and what programs that update have.
  void expect_plan_changes_no_bit() const {
    GraphRun gradients(graph_, options_), apart(graph_, with(false, false)),
        updated(graph_, with(true, true)), updated_apart(graph_, with(false, true));
    const auto all = {&gradients, &apart, &updated, &updated_apart};
    for (GraphRun* run : all) run->step().update = some_optimizer().at(0.05);
    for (int step = 0; step < 2; ++step) {
      for (GraphRun* run : all) run->run();
      EXPECT_TRUE(same_bytes(gradients.replica().gradients, apart.replica().gradients));
      for (GraphRun* run : {&gradients, &apart}) run->update();
      for (GraphRun* run : {&apart, &updated, &updated_apart}) {
        const Replica &a = run->replica(), &b = gradients.replica();
        EXPECT_EQ(run->values("loss"), gradients.values("loss"));
        EXPECT_TRUE(same_bytes(a.parameters, b.parameters)) << "in step " << step;
        EXPECT_TRUE(same_bytes(a.slots[0], b.slots[0])) << "in step " << step;
        EXPECT_TRUE(same_bytes(a.states, b.states)) << "in step " << step;
      }
    }
  }

 private:
  /// A rounding may carry a value across a kink or into another window's maximum. A wrong kernel is
  /// wrong for every draw of the weights.
  void expect_as_reference(const Graph& graph, const CompileOptions& options) const {
    std::vector<std::string> differing;
    for (uint64_t draw = 1; draw <= 2; ++draw) {
      GraphRun run(with_all_values_named(graph), options, Values::f32, draw);
      differing = differing_nodes(run, setting_.precision);
      if (differing.empty()) return;
    }
    ADD_FAILURE() << fmt::format("{}", fmt::join(differing, "\n"));
  }

  CompileOptions with(bool reuse, bool update) const {
    CompileOptions options = options_;
    options.reuse_memory = reuse;
    if (update) options.update = some_optimizer();
    return options;
  }

  RandomNet net_;
  Setting setting_;
  RandomChooser chooser_;
  CompileOptions options_;
  Graph forward_, graph_;
};

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(RandomNets, AreAsOnTheReference) {
  const char* set = std::getenv("CROSSBOW_ISA");
  if (set && !find_loops(set)) GTEST_SKIP() << "this machine has no " << set;
  const uint64_t first = number_in("CROSSBOW_FIRST_NET", 0), count = number_in("CROSSBOW_NETS", 30);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Trial trial(seed);
    SCOPED_TRACE(fmt::format("CROSSBOW_FIRST_NET={} CROSSBOW_NETS=1: {}", seed, trial.str()));
    try {
      trial.expect_every_node_as_reference();
      trial.expect_plan_changes_no_bit();
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

}  // namespace
}  // namespace crossbow::testing
