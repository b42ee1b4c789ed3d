// What is added to an enumeration or to a table, and forgotten elsewhere, must not pass for
// something else.
#include "ops/activation.h"

#include <cstring>

#include "kernels/cpu/loops.h"
#include "ops/dense.h"
#include "ops/gelu.h"
#include "support/error_text.h"
#include "support/graph_testing.h"

namespace crossbow::testing {
namespace {

/// What compiling and running the op once says.
template <typename A, typename Change>
std::string error_of_op(const char* op, const CompileOptions& device, Change change) {
  Graph graph;
  auto attributes = std::make_shared<A>();
  change(*attributes);
  const Tensor x = parameter(graph, {2, 8}, {}, "x"), w = parameter(graph, {2, 8}, {}, "w");
  const bool binary = std::string_view(op) == "dense" || std::string_view(op).ends_with("_grad");
  std::vector<Value> inputs{x.value};
  if (binary) inputs.push_back(w.value);
  graph.set_output("y", graph.append(find_op(op), inputs, attributes).value);
  return error_of([&] { GraphRun(graph, device).run(); });
}

TEST(Activations, OfAnUnknownKindAreRefused) {
  const auto unknown = [](auto& a) { a.activation = static_cast<Activation>(99); };
  for (const CompileOptions& device : {cpu(), reference(DType::f32)}) {
    SCOPED_TRACE(device.device);
    for (const char* op : {"tanh", "activation_grad"}) {
      EXPECT_NE(error_of_op<ActivationAttributes>(op, device, unknown), "no error") << op;
    }
    EXPECT_NE(error_of_op<DenseAttributes>("dense", device, unknown), "no error");
    for (const char* op : {"gelu", "gelu_grad"}) {
      EXPECT_NE(
          error_of_op<GeluAttributes>(
              op, device, [](auto& a) { a.approximate = static_cast<GeluApproximation>(99); }),
          "no error")
          << op;
    }
  }
}

TEST(LoopTables, HaveEveryEntry) {
  for (const char* set : {"plain", "avx2", "avx512", "avx512_bf16"}) {
    const Loops* loops = find_loops(set);
    if (!loops) continue;
    const void* entries[sizeof(Loops) / sizeof(void*)];
    static_assert(sizeof entries == sizeof(Loops), "all entries are pointers");
    std::memcpy(entries, loops, sizeof entries);
    for (size_t i = 0; i < std::size(entries); ++i) {
      EXPECT_NE(entries[i], nullptr) << "pointer " << i << " of the table of " << set;
    }
  }
}

}  // namespace
}  // namespace crossbow::testing
