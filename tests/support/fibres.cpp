// Runs our GPU kernels on the host: a cluster's threads are fibres, one after the other in a random
// order, from one point where a block's threads wait, or all, to the next. The device "fibres" has
// these kernels, and the reference's for the ops that a GPU has from NVIDIA's libraries.
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "device/host_device.h"
#include "kernels/cuda/grid.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace crossbow::fibres {
namespace {

constexpr size_t kStack = 64 << 10;

/// What a switch between stacks must tell AddressSanitizer.
struct StackSwitch {
  void* fake_stack = nullptr;

  void begin([[maybe_unused]] const void* stack, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_stack, stack, bytes);
#endif
  }
  void end([[maybe_unused]] const void** old_stack = nullptr,
           [[maybe_unused]] size_t* old_bytes = nullptr) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, old_stack, old_bytes);
#endif
  }
};

/// Of one thread of the host. A cluster's threads share the fibres: one that waits keeps its fibre,
/// one that is done hands it to a thread that has not begun.
class Blocks {
 public:
  static Blocks& mine() {
    thread_local Blocks blocks;
    return blocks;
  }

  void run(const Grid& grid, void (*kernel)(const void*), const void* arguments) {
    if (grid.threads > kMostThreads || grid.cluster > 8 || grid.blocks % grid.cluster != 0) {
      fail("a GPU would refuse this grid");
    }
    grid_ = grid;
    kernel_ = kernel;
    arguments_ = arguments;
    const auto blocks = static_cast<size_t>(grid.cluster);
    shared_.resize(blocks * grid.shared_bytes);
    waiting_.resize(blocks);
    exchanged_.resize(static_cast<size_t>(threads()));
    order_.resize(static_cast<size_t>(threads()));
    for (first_ = 0; first_ < grid.blocks; first_ += grid.cluster) run_cluster();
  }

  int64_t index() const { return first_ + block(); }
  const Grid& grid() const { return grid_; }
  int rank() const { return running_->thread % grid_.threads; }
  std::byte* shared() { return shared_.data() + block() * shared_bytes(); }
  ptrdiff_t distance_to(int other) const { return (other - block()) * shared_bytes(); }
  void sync() { wait_among(waiting_[static_cast<size_t>(block())]); }
  void sync_cluster() { wait_among(all_waiting_); }
  float exchange(float value, int bits) {
    exchanged_[static_cast<size_t>(running_->thread)] = value;
    sync();
    const float other = exchanged_[static_cast<size_t>(running_->thread ^ bits)];
    sync();
    return other;
  }

 private:
  Blocks() { getcontext(&blank_); }

  struct Fibre {
    std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStack);
    ucontext_t context{};
    StackSwitch out;
    int thread = -1;  // of the cluster
  };

  int threads() const { return grid_.cluster * grid_.threads; }
  int block() const { return running_->thread / grid_.threads; }
  ptrdiff_t shared_bytes() const { return static_cast<ptrdiff_t>(grid_.shared_bytes); }

  void run_cluster() {
    std::fill(shared_.begin(), shared_.end(), std::byte{0xff});  // NaN
    std::iota(order_.begin(), order_.end(), 0);
    shuffle(order_);
    begun_ = finished_ = 0;
    while (begun_ < threads()) resume(free_fibre());
    while (resume_waiting()) {
    }
    if (finished_ < threads()) fail("some threads of a block wait for others, which do not come");
  }

  /// Those for whom all are there; false if there are none.
  bool resume_waiting() {
    bool any = false;
    for (auto& waiting : waiting_) any |= resume_all(waiting, grid_.threads);
    return any || resume_all(all_waiting_, threads());
  }
  bool resume_all(std::vector<Fibre*>& waiting, int expected) {
    if (waiting.size() != static_cast<size_t>(expected)) return false;
    std::vector<Fibre*> all;
    all.swap(waiting);
    shuffle(all);
    for (Fibre* fibre : all) resume(*fibre);
    return true;
  }
  void wait_among(std::vector<Fibre*>& waiting) {
    waiting.push_back(running_);
    leave(*running_);
  }

  template <typename T>
  void shuffle(std::vector<T>& all) {
    for (size_t i = 0; i < all.size(); ++i) {
      std::swap(all[i], all[rng_.below(static_cast<uint32_t>(i) + 1)]);
    }
  }

  Fibre& free_fibre() {
    if (!free_.empty()) {
      Fibre* const fibre = free_.back();
      free_.pop_back();
      return *fibre;
    }
    Fibre& fibre = *fibres_.emplace_back(std::make_unique<Fibre>());
    fibre.context = blank_;
    fibre.context.uc_stack.ss_sp = fibre.stack.get();
    fibre.context.uc_stack.ss_size = kStack;
    makecontext(
        &fibre.context, [] { mine().serve(); }, 0);
    return fibre;
  }
  void resume(Fibre& fibre) {
    running_ = &fibre;
    StackSwitch in;
    in.begin(fibre.stack.get(), kStack);
    swapcontext(&scheduler_, &fibre.context);
    in.end();
  }
  /// Until the scheduler resumes the fibre.
  void leave(Fibre& fibre) {
    fibre.out.begin(scheduler_stack_, scheduler_bytes_);
    swapcontext(&fibre.context, &scheduler_);
    fibre.out.end(&scheduler_stack_, &scheduler_bytes_);
  }
  /// A fibre's life.
  void serve() {
    StackSwitch().end(&scheduler_stack_, &scheduler_bytes_);
    Fibre& fibre = *running_;
    for (;;) {
      while (begun_ < threads()) {
        fibre.thread = order_[static_cast<size_t>(begun_++)];
        kernel_(arguments_);
        ++finished_;
      }
      free_.push_back(&fibre);
      leave(fibre);
    }
  }

  Grid grid_{};
  void (*kernel_)(const void*) = nullptr;
  const void* arguments_ = nullptr;
  int64_t first_ = 0;              // block of the cluster
  int begun_ = 0, finished_ = 0;   // threads
  std::vector<std::byte> shared_;  // by block of the cluster, and these two by its threads
  std::vector<float> exchanged_;
  std::vector<int> order_;
  Rng rng_{1, Purpose::synthetic};
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<Fibre*> free_, all_waiting_;
  std::vector<std::vector<Fibre*>> waiting_;  // for those of their block
  Fibre* running_ = nullptr;
  ucontext_t blank_{}, scheduler_{};
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_bytes_ = 0;
};

}  // namespace

int64_t Thread::block() const {
  return Blocks::mine().index();
}
int64_t Thread::blocks() const {
  return Blocks::mine().grid().blocks;
}
int Thread::rank() const {
  return Blocks::mine().rank();
}
int Thread::threads() const {
  return Blocks::mine().grid().threads;
}
void Thread::sync() const {
  Blocks::mine().sync();
}
float Thread::exchange(float value, int bits) const {
  return Blocks::mine().exchange(value, bits);
}
std::byte* Thread::shared_memory() const {
  return Blocks::mine().shared();
}
void Thread::sync_cluster() const {
  Blocks::mine().sync_cluster();
}
ptrdiff_t Thread::distance_to(int block) const {
  return Blocks::mine().distance_to(block);
}

/// This one has none, as older GPUs.
constexpr const char* kWithoutClusters = "fibres without clusters";

bool has_clusters(const Device& device) {
  return &device != &find_device(kWithoutClusters);
}

void launch_fibres(const Grid& grid, void (*run)(const void*), const void* kernel) {
  Blocks::mine().run(grid, run, kernel);
}

}  // namespace crossbow::fibres

namespace crossbow::testing {
namespace {

DeviceKind describe() {
  return {};
}
std::unique_ptr<Device> make(int) {
  return make_host_device(fibres::kDevice, /*exchange_piece=*/1000);
}
const RegisterDevice kFibres{fibres::kDevice, describe, make},
    kOlder{fibres::kWithoutClusters, describe, make};

/// In f32.
PreparedKernel by_reference(const PrepareContext& context) {
  PrepareContext f32 = context;
  f32.precision = DType::f32;
  return KernelRegistry::of("ref").find(context.node.op->name)(f32);
}

const bool kOfLibraries = [] {
  for (const char* op : {"fault", "conv2d", "conv2d_grad_input", "conv2d_grad_weights", "dense",
                         "dense_grad_input", "dense_grad_weights"}) {
    KernelRegistry::of(fibres::kDevice).add(op, by_reference);
  }
  return true;
}();

}  // namespace
}  // namespace crossbow::testing
