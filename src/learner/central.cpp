#include "learner/central.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "learner/optimizer.h"

namespace crossbow {
namespace {

/// Adds the time of its life to a count of nanoseconds.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<int64_t>& total) : total_(total) {}
  Stopwatch(const Stopwatch&) = delete;
  ~Stopwatch() {
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start_;
    total_.fetch_add(time.count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t>& total_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Central::Scratch::Scratch(const Central& central, int learners)
    : terms_(static_cast<size_t>(learners)),
      weights_(static_cast<size_t>(learners)),
      state_(central.state_.size()) {
  if (!central.mean_.data())
    mean_ = Buffer(static_cast<size_t>(central.chunk_ * central.element_bytes_));
  input_.terms.resize(static_cast<size_t>(learners));
  input_.made.resize(static_cast<size_t>(learners));
  input_.factors.resize(static_cast<size_t>(learners));
  input_.weights.resize(static_cast<size_t>(learners));
}

Central::Central(std::shared_ptr<const SyncAlgorithm> sync, const ParameterLayout& layout,
                 double clip_norm, Place place)
    : sync_(std::move(sync)),
      traits_(sync_->traits()),
      clip_norm_(traits_.averages_gradients ? clip_norm : 0),
      elements_(layout.parameter_elements),
      element_bytes_(static_cast<int64_t>(size_of(layout.dtype))),
      chunk_(std::min(place.device.exchange_piece(), elements_)),
      chunks_((elements_ + chunk_ - 1) / chunk_),
      place_(place),
      queue_(place.device.make_queue()),
      math_(queue_->math(layout.dtype)),
      phases_(1 + (clip_norm_ > 0) + (place_.comm != nullptr)),
      made_(place.device.make_event()) {
  Device& device = place.device;
  const auto bytes = static_cast<size_t>(elements_ * element_bytes_);
  z_[0] = device.allocate_zeroed(bytes);
  if (traits_.overlaps) z_[1] = device.allocate_zeroed(bytes);
  for (int i = 0; i < traits_.state_buffers; ++i) state_.push_back(device.allocate_zeroed(bytes));
  if (phases_ > 1 || !device.is_host()) mean_ = device.allocate_zeroed(bytes);
  if (clip_norm_ > 0) limits_ = device.allocate(static_cast<size_t>(chunks_ + 1) * sizeof(double));
}

std::vector<std::byte*> Central::state() const {
  std::vector<std::byte*> buffers;
  if (traits_.overlaps) buffers.push_back(z(side(1)));
  for (const Buffer& buffer : state_) buffers.push_back(buffer.data());
  return buffers;
}

void Central::restore(int64_t exchanges, int64_t since_exchange) {
  exchanges_ = exchanges;
  since_ = since_exchange;
}

void Central::start(bool after_first_drop, Describe describe) {
  period_ = sync_->period(after_first_drop);
  describe_ = std::move(describe);
  claimed_ = computed_ = closed_ = 0;
}

void Central::finish(int64_t iterations) {
  const int64_t done = exchanges_before(iterations);
  side_ += done;
  exchanges_ += done;
  sums_ += done;
  since_ = (since_ + iterations) % period_;
}

bool Central::ready(int64_t block, const Scheduler& scheduler) const {
  if (closed_.load(std::memory_order_acquire) < block) return false;
  if (reduces_before(block)) return place_.comm->complete(sums_ + block / phases_);
  if (block % phases_ > 0) return true;
  const int64_t iteration = iteration_of(block / phases_);
  return scheduler.completed(place_.index) >= (traits_.overlaps ? iteration : iteration + 1);
}

bool Central::complete(int64_t count, Scheduler& scheduler, Scratch& scratch, Queue& queue) {
  const int64_t goal = count * phases_;
  bool alive = true;
  while (alive && closed_.load(std::memory_order_acquire) < goal) {
    int64_t next = claimed_.load(std::memory_order_acquire);
    const int64_t block = next / chunks_;
    if (block < goal && ready(block, scheduler)) {
      if (!claimed_.compare_exchange_weak(next, next + 1)) continue;
      const Stopwatch watch(working_);
      compute(block, next % chunks_, scratch);
      const int64_t computed = computed_.fetch_add(1, std::memory_order_acq_rel) + 1;
      if (computed % chunks_ > 0) continue;
      close(block);
      scheduler.notify();
    } else if (place_.comm && place_.comm->can_advance()) {
      const Stopwatch watch(working_);
      place_.comm->advance();
    } else {
      const Stopwatch watch(waiting_);
      alive = scheduler.wait([&] {
        const int64_t unclaimed = claimed_.load(std::memory_order_acquire) / chunks_;
        return closed_.load(std::memory_order_acquire) >= goal ||
               (unclaimed < goal && ready(unclaimed, scheduler)) ||
               (place_.comm && place_.comm->can_advance());
      });
    }
  }
  queue.wait(*made_);
  return alive;
}

void Central::close(int64_t block) {
  if (limits_after(block)) {
    double* const sums = limits_.as<double>();
    math_.find_clip_scale(clip_norm_, sums, chunks_, sums + chunks_);
  }
  if (block % phases_ == phases_ - 1) queue_->mark(*made_);
  if (reduces_before(block + 1)) place_.comm->start_sum(*queue_, mean_.data(), elements_);
  closed_.store(block + 1, std::memory_order_release);
}

void Central::compute(int64_t block, int64_t chunk, Scratch& s) {
  const int64_t exchange = block / phases_;
  const int64_t phase = block % phases_;
  const int64_t first = chunk * chunk_ * element_bytes_;
  const int64_t n = std::min(chunk_, elements_ - chunk * chunk_);
  const auto at = [&](auto* span) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(span)>>,
                                    const std::byte, std::byte>;
    return span ? static_cast<Byte*>(span) + first : nullptr;
  };
  if (s.described_exchange_ != exchanges_ + exchange) {
    describe_(iteration_of(exchange), s.input_);
    s.described_exchange_ = exchanges_ + exchange;
  }
  for (size_t j = 0; j < s.terms_.size(); ++j) {
    s.terms_[j] = at(s.input_.terms[j]);
    s.weights_[j] = at(s.input_.weights[j]);
  }
  for (size_t i = 0; i < state_.size(); ++i) s.state_[i] = at(state_[i].data());
  std::byte* const mean = mean_.data() ? at(mean_.data()) : s.mean_.data();
  double* const sums = limits_.as<double>();
  if (phase == 0 && chunk == 0) {
    for (const Event* made : s.input_.made) queue_->wait(*made);
  }
  if (phase == 0) math_.combine(s.input_.factors, s.terms_, mean, n);
  if (limits_after(block)) math_.squared_norm(mean, n, sums + chunk);
  if (phase < phases_ - 1) return;
  sync_->apply({.math = math_,
                .n = n,
                .index = exchanges_ + exchange,
                .lr = s.input_.lr,
                .gradient_scale = clip_norm_ > 0 ? sums + chunks_ : nullptr,
                .mean = mean,
                .z = at(z(side(exchange))),
                .next_z = at(z(side(exchange + 1))),
                .weights = s.weights_,
                .state = s.state_});
}

}  // namespace crossbow
