#include "support/late_device.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "device/device.h"
#include "device/host_team.h"

namespace crossbow::testing {
namespace {

constexpr const char* kFailed = "the late device failed";

LateOptions options;
std::atomic<int64_t> work_done{0};
std::atomic<uint32_t> queues_made{0};

/// A device's memory: addresses that nobody can use, and at a fixed distance those that its queues
/// use in their stead.
class Memory {
 public:
  Memory() : addresses_(reserve(PROT_NONE)), bytes_(reserve(PROT_READ | PROT_WRITE)) {}

  std::byte* allocate(size_t size) {
    const std::lock_guard lock(mutex_);
    const size_t needed = rounded(size);
    if (static_cast<int64_t>(taken_ + needed) > limit()) {
      fail("the late device has no {} bytes left", size);
    }
    size_t at = 0;
    for (const auto& [begin, end] : used_) {
      if (at + needed <= begin) break;
      at = end;
    }
    if (at + needed > kSpan) fail("the late device has no {} bytes in a row left", size);
    used_[at] = at + needed;
    taken_ += needed;
    std::memset(bytes_ + at, kNaN, needed);
    return addresses_ + at;
  }

  /// What a piece of its device's work does that fails.
  [[noreturn]] void fail_device() {
    lost_ = options.lost;
    fail(kFailed);
  }
  /// Throws if it is lost.
  void expect_device() const {
    if (lost_) fail(kFailed);
  }
  void find_device_again() { lost_ = false; }

  /// In bytes.
  static int64_t limit() { return std::min<int64_t>(options.memory, kSpan); }
  int64_t left() const {
    const std::lock_guard lock(mutex_);
    return limit() - static_cast<int64_t>(taken_);
  }

  void free(const std::byte* address) {
    const std::lock_guard lock(mutex_);
    const auto it = used_.find(static_cast<size_t>(address - addresses_));
    taken_ -= it->second - it->first;
    std::memset(bytes_ + it->first, kNaN, it->second - it->first);
    used_.erase(it);
  }

  bool holds(const void* p) const {
    const auto* const at = static_cast<const std::byte*>(p);
    return at >= addresses_ && at < addresses_ + kSpan;
  }
  template <typename T>
  T* usable(T* p) const {
    return reinterpret_cast<T*>(
        reinterpret_cast<uintptr_t>(p) +
        (reinterpret_cast<uintptr_t>(bytes_) - reinterpret_cast<uintptr_t>(addresses_)));
  }

 private:
  static constexpr size_t kSpan = size_t{1} << 32;
  static constexpr int kNaN = 0xff;  // each byte

  static size_t rounded(size_t size) { return std::max<size_t>(1, (size + 4095) / 4096) * 4096; }
  static std::byte* reserve(int protection) {
    void* const p =
        mmap(nullptr, kSpan, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail("no addresses for a late device");
    return static_cast<std::byte*>(p);
  }

  std::byte* const addresses_;
  std::byte* const bytes_;
  mutable std::mutex mutex_;
  std::map<size_t, size_t> used_;  // begin, end
  size_t taken_ = 0;
  std::atomic<bool> lost_{false};
};

/// Of all devices, for copies between them.
std::deque<Memory>& memories() {
  static std::deque<Memory> all;
  return all;
}

/// Null: the host's.
const Memory* memory_of(const void* p) {
  for (const Memory& memory : memories()) {
    if (memory.holds(p)) return &memory;
  }
  return nullptr;
}

/// The host's memory that late devices can read.
class Pinned {
 public:
  void add(const std::byte* begin, size_t bytes) {
    const std::lock_guard lock(mutex_);
    ends_[begin] = begin + bytes;
  }
  void remove(const std::byte* begin) {
    const std::lock_guard lock(mutex_);
    ends_.erase(begin);
  }
  bool holds(const void* p) const {
    const std::lock_guard lock(mutex_);
    const auto next = ends_.upper_bound(static_cast<const std::byte*>(p));
    return next != ends_.begin() && p < std::prev(next)->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, const std::byte*> ends_;
};

Pinned& pinned() {
  static Pinned all;
  return all;
}

/// What a queue has been given, done by a thread of its own.
class Worker {
 public:
  /// Of the device with that memory.
  explicit Worker(Memory& memory)
      : memory_(memory), rng_(options.seed, Purpose::synthetic, queues_made++) {
    thread_ = std::thread([this] { work(); });
  }
  /// What nobody has waited for may never be done.
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void give(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
      ++given_;
    }
    changed_.notify_all();
  }
  int64_t given() const {
    const std::lock_guard lock(mutex_);
    return given_;
  }
  /// Waits for the first `count` pieces of work; what any of them failed with, or null.
  std::exception_ptr finish(int64_t count) {
    std::unique_lock lock(mutex_);
    wanted_ = std::max(wanted_, count);
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_ >= count; });
    return error_;
  }

 private:
  void work() {
    set_host_team(1);
    std::unique_lock lock(mutex_);
    for (;;) {
      const bool at_once = options.pace == LateOptions::Pace::random;
      changed_.wait(lock,
                    [&] { return stop_ || (!waiting_.empty() && (at_once || done_ < wanted_)); });
      if (stop_) return;
      const auto next = std::move(waiting_.front());
      waiting_.pop_front();
      const bool skip = error_ != nullptr;
      lock.unlock();
      std::exception_ptr error;
      try {
        if (at_once && rng_.below(4) == 0) {
          std::this_thread::sleep_for(std::chrono::microseconds(
              rng_.below(static_cast<uint32_t>(options.longest_delay_us) + 1)));
        }
        if (work_done++ == options.failing_work) memory_.fail_device();
        memory_.expect_device();
        if (!skip) next();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (!error_) error_ = error;
      ++done_;
      changed_.notify_all();
    }
  }

  Memory& memory_;
  Rng rng_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  int64_t given_ = 0, done_ = 0, wanted_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

class LateEvent : public Event {
 public:
  struct Point {
    std::shared_ptr<Worker> worker;
    int64_t count = 0;

    void finish() const {
      if (!worker) return;
      if (const auto error = worker->finish(count)) std::rethrow_exception(error);
    }
  };

  void set(Point point) {
    const std::lock_guard lock(mutex_);
    point_ = std::move(point);
  }
  Point point() const {
    const std::lock_guard lock(mutex_);
    return point_;
  }
  void finish() const override { point().finish(); }

 private:
  mutable std::mutex mutex_;
  Point point_;
};

class LateQueue;

/// Gives a queue the arithmetic of another device.
class LateMath : public VectorMath {
 public:
  LateMath(LateQueue& queue, const VectorMath& math) : queue_(queue), math_(math) {}
  void update(const UpdateRule& rule, const UpdateStep& step, const UpdateSpans& spans,
              int64_t n) const override;
  void combine(std::span<const double> factors, std::span<const void* const> terms, void* out,
               int64_t n) const override;
  void squared_norm(const void* x, int64_t n, double* sum) const override;
  void find_clip_scale(double limit, const double* sums, int64_t count,
                       double* scale) const override;

 private:
  LateQueue& queue_;
  const VectorMath& math_;
};

class LateQueue : public Queue {
 public:
  LateQueue(Memory& memory, std::string_view math)
      : memory_(memory), math_name_(math), worker_(std::make_shared<Worker>(memory)) {}

  void copy(void* to, const void* from, size_t bytes) override {
    const Memory *there = memory_of(to), *here = memory_of(from);
    if (there) to = there->usable(to);
    if (here) from = here->usable(from);
    give([to, from, bytes, there, here] {
      for (const Memory* memory : {there, here}) {
        if (memory) memory->expect_device();
      }
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  void write(void* to, const void* from, size_t bytes) override {
    const auto* const first = static_cast<const std::byte*>(from);
    give([to = usable(to), copy = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to, copy.data(), copy.size());
    });
  }
  void zero(void* to, size_t bytes) override {
    give([to = usable(to), bytes] {
      if (bytes > 0) std::memset(to, 0, bytes);
    });
  }
  /// Is done as late as may be.
  void aside(const std::function<void()>& give) override {
    aside_.emplace_back();
    gives_aside_ = true;
    give();
    gives_aside_ = false;
  }
  void join(int but) override {
    for (; aside_.size() > static_cast<size_t>(but); aside_.pop_front()) {
      for (auto& work : aside_.front()) give(std::move(work));
    }
  }
  void mark(Event& event) override {
    join(0);
    static_cast<LateEvent&>(event).set({worker_, worker_->given()});
  }
  void wait(const Event& event) override {
    const LateEvent::Point point = static_cast<const LateEvent&>(event).point();
    if (!point.worker || point.worker == worker_) return;
    give([point] { point.finish(); });
  }
  void finish() override {
    join(0);
    LateEvent::Point{worker_, worker_->given()}.finish();
  }

  Call bind(const std::function<Call(Operands)>& kernel, Operands operands) override {
    for (auto* all : {&operands.inputs, &operands.outputs}) {
      for (void*& p : *all) p = usable(p);
    }
    operands.scratch = usable(operands.scratch);
    const auto call = std::make_shared<const Call>(kernel(std::move(operands)));
    return [this, call](const Step& step) {
      give([this, call, at = usable(&step)] {
        Step copy = *at;
        for (const void*& input : copy.inputs) {
          if (!pinned().holds(input)) input = usable(input);
        }
        (*call)(copy);
      });
    };
  }
  const VectorMath& math(DType dtype) override {
    const std::lock_guard lock(mutex_);
    auto& math = math_[dtype];
    if (!math) math = std::make_unique<LateMath>(*this, vector_math(math_name_, dtype));
    return *math;
  }
  std::unique_ptr<const Recording> record(const std::function<void()>& calls) override;

  void give(std::function<void()> work) {
    if (gives_aside_) return aside_.back().push_back(std::move(work));
    if (recorded_) return recorded_->push_back(std::move(work));
    worker_->give(std::move(work));
  }
  /// Where this queue finds an address of its device; there are no others for it.
  template <typename T>
  T* usable(T* p) const {
    if (!p) return p;
    if (!memory_.holds(p)) fail("a late queue was given an address of another memory");
    return memory_.usable(p);
  }

 private:
  Memory& memory_;
  const std::string_view math_name_;
  const std::shared_ptr<Worker> worker_;
  std::vector<std::function<void()>>* recorded_ = nullptr;
  std::deque<std::vector<std::function<void()>>> aside_;  // that no join has waited for
  bool gives_aside_ = false;
  std::mutex mutex_;
  std::map<DType, std::unique_ptr<LateMath>> math_;
};

class LateRecording : public Recording {
 public:
  explicit LateRecording(LateQueue& queue) : queue_(queue) {}
  void replay() const override {
    for (const auto& work : all) queue_.give(work);
  }
  std::vector<std::function<void()>> all;

 private:
  LateQueue& queue_;
};

std::unique_ptr<const Recording> LateQueue::record(const std::function<void()>& calls) {
  auto recording = std::make_unique<LateRecording>(*this);
  recorded_ = &recording->all;
  calls();
  recorded_ = nullptr;
  return recording;
}

void LateMath::update(const UpdateRule& rule, const UpdateStep& step, const UpdateSpans& spans,
                      int64_t n) const {
  UpdateSpans s{queue_.usable(spans.weights),
                queue_.usable(spans.gradient),
                {},
                queue_.usable(spans.central),
                queue_.usable(spans.next),
                queue_.usable(spans.gradient_scale),
                spans.decay};
  for (size_t i = 0; i < kMostSlots; ++i) s.slots[i] = queue_.usable(spans.slots[i]);
  queue_.give([this, &rule, step, s, n] { math_.update(rule, step, s, n); });
}

void LateMath::combine(std::span<const double> factors, std::span<const void* const> terms,
                       void* out, int64_t n) const {
  std::vector<const void*> t;
  for (const void* term : terms) t.push_back(queue_.usable(term));
  queue_.give([this, f = std::vector<double>(factors.begin(), factors.end()), t,
               out = queue_.usable(out), n] { math_.combine(f, t, out, n); });
}

void LateMath::squared_norm(const void* x, int64_t n, double* sum) const {
  queue_.give(
      [this, x = queue_.usable(x), n, sum = queue_.usable(sum)] { math_.squared_norm(x, n, sum); });
}

void LateMath::find_clip_scale(double limit, const double* sums, int64_t count,
                               double* scale) const {
  queue_.give([this, limit, sums = queue_.usable(sums), count, scale = queue_.usable(scale)] {
    math_.find_clip_scale(limit, sums, count, scale);
  });
}

class LateDevice : public Device {
 public:
  /// `math`: of its queues, who take the numbers of an update from the host.
  LateDevice(std::string_view kernels, std::string_view math)
      : kernels_(kernels), math_(math), memory_(memories().emplace_back()) {}

  std::string_view kernels() const override { return kernels_; }
  bool is_host() const override { return false; }
  bool works_aside() const override { return true; }
  int crowd() const override { return 32; }
  /// Its kernels are the CPU's, prepared by the calling thread for a queue's, which has no team.
  void set_team(int) override { set_host_team(1); }
  double memory_mb() const override { return mebibytes(static_cast<double>(Memory::limit())); }
  double free_memory_mb() const override { return mebibytes(static_cast<double>(memory_.left())); }
  Buffer allocate(size_t bytes) override {
    memory_.expect_device();
    if (bytes == 0) return {};
    return {memory_.allocate(bytes), bytes, [this](std::byte* p) { memory_.free(p); }};
  }
  Buffer allocate_pinned(size_t bytes) override {
    memory_.expect_device();
    const auto memory = std::make_shared<Buffer>(bytes);
    pinned().add(memory->data(), bytes);
    return {memory->data(), bytes, [memory](std::byte* p) { pinned().remove(p); }};
  }
  bool can_read(const void* host) const override { return pinned().holds(host); }
  std::unique_ptr<Queue> make_queue() override {
    memory_.expect_device();
    return std::make_unique<LateQueue>(memory_, math_);
  }
  std::unique_ptr<Event> make_event() override {
    memory_.expect_device();
    return std::make_unique<LateEvent>();
  }

 private:
  const std::string_view kernels_, math_;
  Memory& memory_;
};

DeviceKind four_devices() {
  return {.devices = 4};
}

const RegisterDevice kLate{"late", four_devices, [](int) -> std::unique_ptr<Device> {
                             return std::make_unique<LateDevice>("cpu", "cpu");
                           }};
const RegisterDevice kLateRef{"late-ref", four_devices, [](int) -> std::unique_ptr<Device> {
                                return std::make_unique<LateDevice>("ref", "ref");
                              }};
const RegisterDevice kLateGpu{"late-gpu", four_devices, [](int) -> std::unique_ptr<Device> {
                                return std::make_unique<LateDevice>("fibres", "fibres queue");
                              }};

}  // namespace

WithLateOptions::WithLateOptions(const LateOptions& o) {
  options = o;
  work_done = 0;
  queues_made = 0;
}

WithLateOptions::~WithLateOptions() {
  options = {};
  for (Memory& memory : memories()) memory.find_device_again();
}

int64_t late_work_done() {
  return work_done;
}

}  // namespace crossbow::testing
