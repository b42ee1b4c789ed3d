// What a device offers the plan: for each op a `prepare` function that looks at a node once, picks
// an implementation and says which layouts it wants; and `bind`, which fixes the addresses and
// returns the call that a step makes. Kernels only compute: validation, allocation and scheduling
// happen above them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/registry.h"
#include "device/device.h"
#include "device/layout.h"
#include "graph/op.h"

namespace crossbow {

struct PreparedKernel {
  std::vector<Layout> inputs;   // what it reads; the plan converts where the offered ones differ
  std::vector<Layout> outputs;  // what it writes
  size_t scratch_bytes = 0;
  std::string implementation;  // for reports and tests: "jit_wino_4x3:avx512_core", "loops:avx512"
  /// May be called many times, for other addresses; the calls are independent of each other.
  std::function<Call(Operands)> bind;

  /// Of a kernel whose first output is the gradient of a parameter: what to bind instead where
  /// nothing but the optimizer's step is done with that gradient. It then has as further inputs the
  /// parameter, what that is pulled towards, and the optimizer's slots, and the parameter's next
  /// values in the first output's place. Weight decay is of the parameter, if there is any: it has
  /// two dimensions or more. Null, itself or what it returns, where there is no such thing.
  std::function<std::function<Call(Operands)>(const Optimizer&)> update;
  /// `update` changes few of the elements, in place, and of live ones the shared.
  bool updates_few = false;
  /// Others may write the parameters that it reads while it does (UpdateRule::live).
  bool reads_live = false;
};

/// What such an update works on but for the gradient, where its further inputs begin at `first`.
UpdateSpans update_spans(const Operands& operands, size_t first);

/// How a layer with several implementations gets its best one: by trying, or from an earlier trial.
class AlgorithmChooser {
 public:
  virtual ~AlgorithmChooser() = default;
  /// `key` identifies the layer, `candidates` their names. `measure(i)` times candidate i and
  /// returns seconds; it is only called if the answer is not known yet.
  virtual size_t choose(const std::string& key, std::span<const std::string> candidates,
                        const std::function<double(size_t)>& measure) = 0;
};

struct PrepareContext {
  const Graph& graph;
  const Node& node;
  /// Layout of each input as its producer writes it; absent for a parameter whose layout is still
  /// open (then the kernel's wish decides) and for absent optional inputs.
  std::span<const std::optional<Layout>> offered;
  /// Layouts that the outputs should have, which spares the plan a conversion; absent where any
  /// does.
  std::span<const std::optional<Layout>> required;
  Device& device;   // of the kind; for trials
  DType precision;  // how TensorType f32 is stored: f32, bf16, or f64 (reference)
  bool tf32;        // CompileOptions::tf32
  int threads;      // of the OpenMP team that will run the calls
  bool crowded;     // others keep the device busy: a kernel's work counts, not how long it takes
  AlgorithmChooser* chooser = nullptr;  // null: take the first candidate

  TensorType input_type(size_t i) const { return graph.type(node.inputs[i]); }
  /// The offered layout of input i, or row-major at the program's precision if it is open.
  Layout offered_or_plain(size_t i) const;
};

using PrepareFn = PreparedKernel (*)(const PrepareContext&);
/// Copies a tensor into another layout or element type.
using ReorderFn = PreparedKernel (*)(const Layout& from, const Layout& to, int threads);
/// Copies tensors into another element type, all by one kernel. Each `to` has the strides of its
/// `from`, and all have the types of the first.
using CastsFn = PreparedKernel (*)(std::vector<Layout> from, std::vector<Layout> to);

/// One device's kernels by op name. Filled by static registrations, constant afterwards.
class KernelRegistry {
 public:
  static KernelRegistry& of(std::string_view device);
  explicit KernelRegistry(std::string_view device);

  /// These throw Error if the device has one already.
  void add(std::string_view op, PrepareFn prepare) { kernels_.add(op, prepare); }
  void set_reorder(ReorderFn reorder);
  void set_casts(CastsFn casts);
  PrepareFn find(std::string_view op) const;  // null if the device lacks it
  /// Throws Error if the device has one layout and element type only.
  PreparedKernel reorder(const Layout& from, const Layout& to, int threads) const;
  /// Null where many kernels cost no more than one.
  CastsFn casts() const { return casts_; }

 private:
  ReorderFn reorder_ = nullptr;
  CastsFn casts_ = nullptr;
  Registry<PrepareFn> kernels_;
};

/// `static const RegisterKernel k{"ref", "relu", prepare};`
struct RegisterKernel {
  RegisterKernel(std::string_view device, std::string_view op, PrepareFn prepare) {
    KernelRegistry::of(device).add(op, prepare);
  }
};

inline bool supports(std::string_view device, std::string_view op) {
  return KernelRegistry::of(device).find(op) != nullptr;
}

}  // namespace crossbow
