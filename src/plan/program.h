// A graph compiled for one device: a flat list of prepared kernels over offsets in one arena, in
// the order they run. Immutable and shared by all learners; an Execution binds it to memory.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/source.h"
#include "kernels/kernel.h"
#include "plan/workspace.h"

namespace crossbow {

/// Where each parameter lies in a replica's flat buffers (weights, gradient, optimizer's slots),
/// each state in its state buffer, and what is frozen in a third one, in the plan's own layout. All
/// programs of a model share one. Slots are 64-byte aligned; padding is zero.
struct ParameterLayout {
  struct Slot {
    std::string name;
    Layout layout;
    int64_t offset;  // in elements
    Initialiser initialiser;
    uint32_t index = 0;  // of a parameter among all of the net, by which its values are drawn

    bool decays(const WeightDecay& decay) const {
      return decay.of_vectors || layout.shape.rank() > 1;
    }
  };
  DType dtype = DType::f32;              // of the master copy: f32, or f64 on the reference device
  std::vector<Slot> parameters, states;  // that training changes
  std::vector<Slot> frozen_parameters, frozen_states;  // in one buffer
  // Padding included.
  int64_t parameter_elements = 0, state_elements = 0, frozen_elements = 0;

  void add_parameter(std::string name, const Layout& layout, const Initialiser& initialiser,
                     bool frozen = false);
  void add_state(std::string name, const Layout& layout, float value, bool frozen = false);
  const Slot* find(std::string_view name) const;  // among all; null if there is none
  std::array<const std::vector<Slot>*, 4> all() const {
    return {&parameters, &frozen_parameters, &states, &frozen_states};
  }
  /// The net's last parameter, frozen or not.
  const Slot& last_parameter() const;
  /// Numbers of values of parameters, padding excluded.
  int64_t trained() const;
  int64_t frozen() const;

  struct Piece {
    int64_t first, elements;
    bool decay = true;  // UpdateSpans'
  };
  Piece whole() const { return {0, parameter_elements}; }
  /// Of the flat buffers of parameters, padding included, of at most `largest` elements.
  std::vector<Piece> pieces(int64_t largest) const;
  /// As the optimizer updates them: of one parameter each if its rule asks for that, and never of
  /// some that decay and some that do not.
  std::vector<Piece> pieces(const Optimizer& optimizer, int64_t largest) const;
  static int64_t largest(const std::vector<Piece>& pieces);
};

/// A learner's model: what training changes. Zeroed when made. Programs that update need no buffer
/// for the whole gradient.
struct Replica {
  /// In the host's memory.
  explicit Replica(const ParameterLayout& layout, bool with_gradients = true, size_t slots = 0);
  /// In a device's, without gradients.
  Replica(const ParameterLayout& layout, Device& device, size_t slots = 0);
  Device* device;
  Buffer parameters, gradients, states, frozen;
  std::vector<Buffer> slots;  // the optimizer's
};

/// The flat buffers that an execution works on, each laid out by ParameterLayout; null where its
/// program needs none.
struct ReplicaView {
  std::byte *parameters = nullptr, *gradients = nullptr, *states = nullptr, *frozen = nullptr;
  SlotAddresses slots{};  // the optimizer's
  /// Where programs that update leave the weights: `parameters`, or another buffer, so that others
  /// may read the old ones meanwhile. Null with a live rule where nobody reads them.
  std::byte* next_parameters = nullptr;
  const std::byte* central = nullptr;  // what UpdateStep::pull pulls towards

  ReplicaView() = default;
  ReplicaView(const Replica& replica)  // NOLINT: a replica is a view of itself
      : parameters(replica.parameters.data()),
        gradients(replica.gradients.data()),
        states(replica.states.data()),
        frozen(replica.frozen.data()),
        slots(addresses_of(replica.slots)),
        next_parameters(parameters) {}
};

struct CompileOptions {
  std::string device = "cpu";  // "cpu" (oneDNN), "cuda" or "ref"
  DType precision = DType::f32;
  bool tf32 = false;  // products of f32 may be of operands rounded to TF32, on GPUs
  int threads = 1;    // OpenMP team that runs each call
  int programs = 1;   // that run on the device at the same time
  bool reuse_memory = true;
  /// Ends the step with this optimizer's, by Step::update: each parameter is updated as soon as its
  /// gradient is there and nobody reads it any more, while both are in the cache. The gradient is
  /// then a temporary like others, or in no memory, where its kernel updates.
  std::optional<Optimizer> update;
  /// The update leaves weights where they were, pulled towards nothing. Then a step may change few
  /// of a parameter's elements (PreparedKernel::updates_few).
  bool updates_in_place = true;
  AlgorithmChooser* chooser = nullptr;
  /// Of the first program compiled for the model, which decides; absent for it.
  std::shared_ptr<const ParameterLayout> parameters;

  /// Others keep the device busy, so that a kernel's work counts and not how long it takes.
  bool crowded() const { return programs >= find_device(device).crowd(); }
  /// Whether the same programs come of both, where the layouts agree.
  bool same_programs(CompileOptions other) const;
  friend bool operator==(const CompileOptions&, const CompileOptions&) = default;
};

class Program {
 public:
  /// A kernel to people: which it is, and what it costs.
  struct KernelInfo {
    std::string name, kind;  // of the node and its op; the plan adds "reorder" and update rules
    std::string implementation;
    double flops = 0;
    bool backward = false;
    bool update = false;  // of a parameter
    size_t bytes = 0;     // of all operands
  };

  /// Throws Error if the device lacks an op.
  static std::shared_ptr<const Program> compile(const Graph& graph, const CompileOptions& options);

  std::shared_ptr<const ParameterLayout> parameters() const { return parameters_; }
  const std::vector<KernelInfo>& kernel_infos() const { return kernel_infos_; }
  /// Of a program that leaves the gradient, on a device without work aside: the number of kernels
  /// behind which it is complete from the parameter on that begins at this element.
  size_t kernels_for_gradient(int64_t from) const;
  size_t arena_bytes() const { return arena_bytes_; }
  size_t arena_bytes_without_reuse() const { return arena_bytes_without_reuse_; }
  const FieldBytes& input_bytes() const { return input_bytes_; }
  int threads() const { return threads_; }
  double flops() const;
  /// As many as kernel_infos(); for measuring them one by one.
  std::vector<const PreparedKernel*> prepared_kernels() const;

 private:
  friend class Execution;
  friend class Compiler;
  enum class Memory : uint8_t {
    absent,
    arena,
    parameter,
    next_parameter,
    gradient,
    slot,
    state,
    frozen,
    central
  };
  struct Location {
    Memory memory = Memory::absent;
    size_t offset = 0;  // in bytes
    size_t slot = 0;    // which of the optimizer's
  };
  struct Kernel {
    PreparedKernel prepared;
    std::function<Call(Operands)> update;  // bound in place of that, if there is one
    std::vector<Location> inputs, outputs;
    Location scratch;
    /// Given aside (Queue::aside), and of those so many may be under way afterwards.
    std::optional<int> lag;
  };
  struct Result {
    Location location;
    Layout layout;
  };

  std::shared_ptr<const ParameterLayout> parameters_;
  std::vector<KernelInfo> kernel_infos_;
  std::vector<Kernel> kernels_;
  size_t first_update_ = 0;  // index of the first kernel that updates a parameter, or their number
  bool in_place_ = false;    // some of them change parameters in place only
  std::map<std::string, Result> results_;
  size_t arena_bytes_ = 0, arena_bytes_without_reuse_ = 0;
  FieldBytes input_bytes_{};
  int threads_ = 1;
};

/// A program bound to one replica and one workspace (of at least Program::arena_bytes() and
/// input_bytes()), both on one device. Keeps the program alive, not the memory. What its functions
/// do is the work of the workspace's queue, whose thread should have set its OpenMP width to
/// Program::threads().
class Execution {
 public:
  /// `cuts`: elements of the flat gradient, as of kernels_for_gradient, the last one first.
  Execution(std::shared_ptr<const Program> program, const ReplicaView& replica,
            const Workspace& workspace, std::span<const int64_t> cuts = {});

  /// Reads Step::inputs, which are the host's, and the replica's parameters; writes its gradients
  /// and states, or updates its parameters and slots.
  void run(const Step& step) const {
    run(step, [] { return true; });
  }
  /// As run, calling `before_updates` between the last work that leaves the parameters alone and
  /// the first that updates one; if it returns false, that is the end, and so is the result.
  template <typename F>
  bool run(const Step& step, F before_updates) const {
    return run(step, before_updates, [](size_t) {});
  }
  /// As run, calling `passed(n)` as soon as the gradient is complete from the n-th cut on, from 1.
  template <typename F, typename G>
  bool run(const Step& step, F before_updates, G passed) const {
    workspace_.set(step, program_->input_bytes());
    for (size_t n = 0; n < gradients_.size(); ++n) {
      if (n > 0) passed(n);
      gradients_[n].run(workspace_.queue(), workspace_.step());
    }
    if (!before_updates()) return false;
    updates_.run(workspace_.queue(), workspace_.step());
    return true;
  }
  /// As run, adding each call's seconds to `seconds[i]` (as many as Program::kernel_infos()).
  void run_timed(const Step& step, std::span<double> seconds) const;
  /// A scalar result ("loss", "accuracy") of the last run, for which these two wait.
  double scalar(const std::string& name) const;
  /// Any result of the last run, row-major.
  std::vector<double> values(const std::string& name) const;
  /// The device's address of a scalar stored as f32, for the training loop; null if it is not one.
  const float* scalar_address(const std::string& name) const;

 private:
  /// Calls in a row. Where the queue records, it does so at their second run: at the first a
  /// library may make ready what it must not while it is recorded.
  class Stretch {
   public:
    std::vector<Call> calls;

    void run(Queue& queue, const Step& step) const {
      if (calls.empty()) return;
      if (runs_ < 2 && ++runs_ == 2) recording_ = queue.record([&] { give(step); });
      if (recording_) return recording_->replay();
      give(step);
    }

   private:
    void give(const Step& step) const {
      for (const Call& call : calls) call(step);
    }

    mutable int runs_ = 0;  // until it is settled
    mutable std::unique_ptr<const Recording> recording_;
  };

  std::shared_ptr<const Program> program_;
  const Workspace& workspace_;
  std::vector<Stretch> gradients_;  // one more than cuts
  Stretch updates_;
  std::map<std::string, const void*> results_;
};

/// Draws every parameter and state afresh: (seed, parameter index) decide, not layout or device.
void initialise(const ParameterLayout& layout, Replica& replica, uint64_t seed);

}  // namespace crossbow
