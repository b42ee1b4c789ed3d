#include "comm/local.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace crossbow {

class LocalGroup::Rank : public Comm {
 public:
  Rank(LocalGroup& group, int rank, Device& device)
      : ready(device.make_event()), group_(group), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.ranks(); }
  Sum start_sum(Queue& queue, void* values, int64_t n) override {
    return group_.start(*this, queue, values, n);
  }
  State state(Sum sum) const override { return group_.state(sum); }
  std::string failure() const override {
    const std::lock_guard lock(group_.mutex_);
    return group_.failure_;
  }
  bool advance() override { return group_.advance(); }
  bool can_advance() const override { return group_.can_advance(); }

  // Of the sum that this rank started last.
  int64_t sums = 0;  // so far
  Queue* queue = nullptr;
  std::byte* values = nullptr;
  const std::unique_ptr<Event> ready;

 private:
  LocalGroup& group_;
  const int rank_;
};

LocalGroup::LocalGroup(const std::vector<Device*>& devices, int64_t elements, DType dtype,
                       std::function<void()> notify)
    : elements_(elements),
      piece_(std::min(devices[0]->exchange_piece(), elements)),
      pieces_((elements + piece_ - 1) / piece_),
      dtype_(dtype),
      notify_(std::move(notify)),
      summed_(devices[0]->make_event()) {
  if (!devices[0]->is_host()) {
    other_ = devices[0]->allocate(static_cast<size_t>(elements) * size_of(dtype));
  }
  for (Device* device : devices) {
    ranks_.push_back(std::make_unique<Rank>(*this, ranks(), *device));
  }
}

LocalGroup::~LocalGroup() = default;

Comm& LocalGroup::rank(int r) {
  return *ranks_[static_cast<size_t>(r)];
}

void LocalGroup::lose(int r, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = fmt::format("rank {} is lost: {}", r, why);
  }
  lost_.store(true, std::memory_order_release);
  notify_();
}

Comm::Sum LocalGroup::start(Rank& rank, Queue& queue, void* values, int64_t n) {
  if (n != elements_) fail("a sum of {} elements among ranks that have {}", n, elements_);
  rank.queue = &queue;
  rank.values = static_cast<std::byte*>(values);
  queue.mark(*rank.ready);
  if ((started_.fetch_add(1, std::memory_order_acq_rel) + 1) % ranks() == 0) notify_();
  return rank.sums++;
}

Comm::State LocalGroup::state(Comm::Sum sum) const {
  if (computed_.load(std::memory_order_acquire) >= (sum + 1) * pieces_) return Comm::State::done;
  return lost_.load(std::memory_order_acquire) ? Comm::State::failed : Comm::State::running;
}

bool LocalGroup::can_advance() const {
  const int64_t operation = claimed_.load(std::memory_order_acquire) / pieces_;
  return started_.load(std::memory_order_acquire) >= (operation + 1) * ranks();
}

bool LocalGroup::advance() {
  int64_t next = claimed_.load(std::memory_order_acquire);
  do {
    if (started_.load(std::memory_order_acquire) < (next / pieces_ + 1) * ranks()) return false;
  } while (!claimed_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel));
  compute(next % pieces_);
  if ((computed_.fetch_add(1, std::memory_order_acq_rel) + 1) % pieces_ == 0) notify_();
  return true;
}

/// The first rank's queue adds up and hands out.
void LocalGroup::compute(int64_t piece) {
  const int64_t first = piece * piece_, n = std::min(piece_, elements_ - first);
  const auto element_bytes = static_cast<int64_t>(size_of(dtype_));
  const auto bytes = static_cast<size_t>(n * element_bytes);
  Queue& queue = *ranks_[0]->queue;
  std::byte* const sum = ranks_[0]->values + first * element_bytes;
  constexpr std::array<double, 2> kOnes{1, 1};
  for (size_t r = 1; r < ranks_.size(); ++r) {
    std::byte* other = ranks_[r]->values + first * element_bytes;
    queue.wait(*ranks_[r]->ready);
    if (other_.data()) {
      queue.copy(other_.data(), other, bytes);
      other = other_.data();
    }
    const std::array<const void*, 2> terms{sum, other};
    queue.math(dtype_).combine(kOnes, terms, sum, n);
  }
  for (size_t r = 1; r < ranks_.size(); ++r) {
    queue.copy(ranks_[r]->values + first * element_bytes, sum, bytes);
  }
  if (piece < pieces_ - 1) return;
  queue.mark(*summed_);
  for (const auto& rank : ranks_) rank->queue->wait(*summed_);
}

}  // namespace crossbow
