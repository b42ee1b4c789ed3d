// Trials of kernels: by a queue, to its end.
#include "kernels/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/error.h"
#include "graph/source.h"
#include "ops/activation.h"
#include "support/late_device.h"

namespace crossbow::testing {
namespace {

/// Takes a while, and reads its input as kernels do.
PreparedKernel slow_kernel(std::chrono::milliseconds time, float& seen) {
  PreparedKernel kernel;
  kernel.inputs = {Layout::plain({4}, DType::f32)};
  kernel.outputs = {Layout::plain({4}, DType::f32)};
  kernel.bind = [time, &seen](const Operands& operands) -> Call {
    return [time, &seen, from = static_cast<const float*>(operands.inputs[0]),
            to = static_cast<float*>(operands.outputs[0])](const Step&) {
      std::this_thread::sleep_for(time);
      to[0] = seen = from[0];
    };
  };
  return kernel;
}

TEST(Measure, WaitsForTheWorkOfAnyDevice) {
  for (const char* kind : {"cpu", "late"}) {
    float seen = 0;
    const auto kernel = slow_kernel(std::chrono::milliseconds(3), seen);
    EXPECT_GE(measure(kernel, find_device(kind)), 3e-3) << kind;
    EXPECT_EQ(seen, -0.75f) << kind;  // the first of the made-up values
  }
}

TEST(Measure, PassesOnWhatAKernelFailsWith) {
  const WithLateOptions options({.failing_work = 2});
  float seen = 0;
  EXPECT_THROW(measure(slow_kernel(std::chrono::milliseconds(0), seen), find_device("late")),
               Error);
}

/// Asks what each candidate takes.
class AskingChooser : public AlgorithmChooser {
 public:
  size_t choose(const std::string& asked, std::span<const std::string> candidates,
                const std::function<double(size_t)>& measure) override {
    key = asked;
    for (size_t i = 0; i < candidates.size(); ++i) seconds.push_back(measure(i));
    return 0;
  }

  std::string key;
  std::vector<double> seconds;
};

PreparedKernel idle_kernel(const Layout& input) {
  PreparedKernel kernel{{input}, {}};
  kernel.bind = [](const Operands&) -> Call { return [](const Step&) {}; };
  return kernel;
}

AskingChooser asked(Tensor x, const std::vector<Layout>& candidates) {
  relu(x);
  const std::optional<Layout> offered = Layout::plain(x.shape(), DType::f32);
  std::vector<PreparedKernel> kernels;
  for (const Layout& layout : candidates) kernels.push_back(idle_kernel(layout));
  AskingChooser chooser;
  choose({*x.graph,
          x.graph->nodes().back(),
          {&offered, 1},
          {},
          find_device("cpu"),
          DType::f32,
          false,
          1,
          false,
          &chooser},
         "relu", kernels);
  return chooser;
}

TEST(Choose, CountsTheConversionsOfWhatIsOffered) {
  Graph graph;
  const Tensor x = input(graph, {8, 64, 32, 32});
  const Layout plain = Layout::plain(x.shape(), DType::f32);
  const Layout channels_last = Layout::channels_last(x.shape(), DType::f32);
  const AskingChooser mixed = asked(x, {plain, channels_last});
  EXPECT_GT(mixed.seconds[1], 20 * mixed.seconds[0]);
  EXPECT_EQ(mixed.key, "relu, of " + plain.str());
  EXPECT_EQ(asked(x, {channels_last, channels_last}).key, "relu");
}

/// Weights will lie as their gradient's kernel wants.
TEST(Choose, DoesNotCountTheConversionsOfParameters) {
  Graph graph;
  const Tensor w = parameter(graph, {64, 64, 32, 32}, Initialiser::constant(0), "w");
  const Layout plain = Layout::plain(w.shape(), DType::f32);
  EXPECT_EQ(asked(w, {plain, Layout::channels_last(w.shape(), DType::f32)}).key, "relu");
}

TEST(Choose, CountsTheConversionOfWeightsToAnotherType) {
  Graph graph;
  const Tensor w = parameter(graph, {64, 64, 32, 32}, Initialiser::constant(0), "w");
  const Layout f32 = Layout::plain(w.shape(), DType::f32);
  const AskingChooser mixed = asked(w, {f32, f32.with_dtype(DType::bf16)});
  EXPECT_GT(mixed.seconds[1], 20 * mixed.seconds[0]);
}

}  // namespace
}  // namespace crossbow::testing
