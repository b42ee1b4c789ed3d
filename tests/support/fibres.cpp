// Runs our GPU kernels on the host: a block's threads are fibres, one after the other in a random
// order, from one point where all threads wait to the next. The device "fibres" has these kernels,
// and the reference's for the ops that a GPU has from NVIDIA's libraries.
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

/// Of one thread of the host. A block's threads share the fibres: one that waits keeps its fibre,
/// one that is done hands it to a thread that has not begun.
class Blocks {
 public:
  static Blocks& mine() {
    thread_local Blocks blocks;
    return blocks;
  }

  void run(const Grid& grid, void (*kernel)(const void*), const void* arguments) {
    grid_ = grid;
    kernel_ = kernel;
    arguments_ = arguments;
    shared_.resize(grid.shared_bytes);
    exchanged_.resize(static_cast<size_t>(grid.threads));
    order_.resize(static_cast<size_t>(grid.threads));
    for (index_ = 0; index_ < grid.blocks; ++index_) run_block();
  }

  int64_t index() const { return index_; }
  const Grid& grid() const { return grid_; }
  int rank() const { return running_->rank; }
  void* shared() { return shared_.data(); }
  void sync() {
    waiting_.push_back(running_);
    leave(*running_);
  }
  float exchange(float value, int bits) {
    exchanged_[static_cast<size_t>(rank())] = value;
    sync();
    const float other = exchanged_[static_cast<size_t>(rank() ^ bits)];
    sync();
    return other;
  }

 private:
  Blocks() { getcontext(&blank_); }

  struct Fibre {
    std::vector<std::byte> stack = std::vector<std::byte>(kStack);
    ucontext_t context{};
    StackSwitch out;
    int rank = -1;
  };

  void run_block() {
    std::fill(shared_.begin(), shared_.end(), std::byte{0xff});  // NaN
    std::iota(order_.begin(), order_.end(), 0);
    shuffle(order_);
    begun_ = finished_ = 0;
    while (begun_ < grid_.threads) resume(free_fibre());
    while (!waiting_.empty()) {
      if (finished_ > 0) fail("some threads of a block wait for others, which have left");
      std::vector<Fibre*> all;
      all.swap(waiting_);
      shuffle(all);
      for (Fibre* fibre : all) resume(*fibre);
    }
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
    fibre.context.uc_stack.ss_sp = fibre.stack.data();
    fibre.context.uc_stack.ss_size = fibre.stack.size();
    makecontext(
        &fibre.context, [] { mine().serve(); }, 0);
    return fibre;
  }
  void resume(Fibre& fibre) {
    running_ = &fibre;
    StackSwitch in;
    in.begin(fibre.stack.data(), fibre.stack.size());
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
      while (begun_ < grid_.threads) {
        fibre.rank = order_[static_cast<size_t>(begun_++)];
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
  int64_t index_ = 0;
  int begun_ = 0, finished_ = 0;  // threads
  std::vector<std::byte> shared_;
  std::vector<float> exchanged_;  // by rank
  std::vector<int> order_;
  Rng rng_{1, Purpose::synthetic};
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<Fibre*> free_, waiting_;
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
void* Thread::shared_memory() const {
  return Blocks::mine().shared();
}

void launch_fibres(const Grid& grid, void (*run)(const void*), const void* kernel) {
  Blocks::mine().run(grid, run, kernel);
}

}  // namespace crossbow::fibres

namespace crossbow::testing {
namespace {

const RegisterDevice kFibres{
    fibres::kDevice, [] { return DeviceKind{}; },
    [](int) { return make_host_device(fibres::kDevice, /*exchange_piece=*/1000); }};

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
