#include "comm/local.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace crossbow {

class LocalGroup::Rank : public Comm {
 public:
  Rank(LocalGroup& group, int rank, Device& device) : group_(group), rank_(rank) {
    for (size_t part = 0; part < group.parts_.size(); ++part)
      terms.push_back({device.make_event()});
  }

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

  struct Term {
    std::unique_ptr<Event> ready;
    Queue* queue = nullptr;
    std::byte* values = nullptr;
  };
  std::vector<Term> terms;  // by part, of the sum that this rank has started last
  Comm::Sum sums = 0;       // so far

 private:
  LocalGroup& group_;
  const int rank_;
};

LocalGroup::LocalGroup(const std::vector<Device*>& devices, std::span<const int64_t> parts,
                       DType dtype, std::function<void()> notify)
    : dtype_(dtype),
      notify_(std::move(notify)),
      summed_(devices[0]->make_event()),
      started_(parts.size()) {
  for (const int64_t n : parts) {
    const int64_t piece = std::min(devices[0]->exchange_piece(), n);
    parts_.push_back({n, piece, (n + piece - 1) / piece, pieces_});
    pieces_ += parts_.back().pieces;
  }
  if (!devices[0]->is_host()) {
    other_ = devices[0]->allocate(static_cast<size_t>(std::ranges::max(parts)) * size_of(dtype));
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
  const size_t part = part_of(rank.sums);
  if (n != parts_[part].elements) {
    fail("a sum of {} elements among ranks that have {}", n, parts_[part].elements);
  }
  Rank::Term& term = rank.terms[part];
  term.queue = &queue;
  term.values = static_cast<std::byte*>(values);
  queue.mark(*term.ready);
  if ((started_[part].fetch_add(1, std::memory_order_acq_rel) + 1) % ranks() == 0) notify_();
  return rank.sums++;
}

int64_t LocalGroup::pieces_before(Comm::Sum sum) const {
  return sum / std::ssize(parts_) * pieces_ + parts_[part_of(sum)].first;
}

Comm::Sum LocalGroup::sum_of(int64_t piece) const {
  Comm::Sum sum = piece / pieces_ * std::ssize(parts_);
  while (pieces_before(sum + 1) <= piece) ++sum;
  return sum;
}

Comm::State LocalGroup::state(Comm::Sum sum) const {
  if (computed_.load(std::memory_order_acquire) >= pieces_before(sum + 1)) return Comm::State::done;
  return lost_.load(std::memory_order_acquire) ? Comm::State::failed : Comm::State::running;
}

bool LocalGroup::ready(int64_t piece) const {
  const Comm::Sum sum = sum_of(piece);
  const int64_t started = started_[part_of(sum)].load(std::memory_order_acquire);
  return started >= (sum / std::ssize(parts_) + 1) * ranks() &&
         computed_.load(std::memory_order_acquire) >= pieces_before(sum);
}

bool LocalGroup::can_advance() const {
  return ready(claimed_.load(std::memory_order_acquire));
}

bool LocalGroup::advance() {
  int64_t next = claimed_.load(std::memory_order_acquire);
  do {
    if (!ready(next)) return false;
  } while (!claimed_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel));
  compute(next);
  const int64_t computed = computed_.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (computed == pieces_before(sum_of(next) + 1)) notify_();
  return true;
}

/// The first rank's queue adds up and hands out.
void LocalGroup::compute(int64_t piece) {
  const Comm::Sum number = sum_of(piece);
  const size_t index = part_of(number);
  const Part& part = parts_[index];
  const int64_t nth = piece - pieces_before(number), first = nth * part.piece;
  const int64_t n = std::min(part.piece, part.elements - first);
  const auto element_bytes = static_cast<int64_t>(size_of(dtype_));
  const auto bytes = static_cast<size_t>(n * element_bytes);
  const auto term_of = [&](size_t r) -> const Rank::Term& { return ranks_[r]->terms[index]; };
  Queue& queue = *term_of(0).queue;
  std::byte* const sum = term_of(0).values + first * element_bytes;
  constexpr std::array<double, 2> kOnes{1, 1};
  for (size_t r = 1; r < ranks_.size(); ++r) {
    std::byte* other = term_of(r).values + first * element_bytes;
    queue.wait(*term_of(r).ready);
    if (other_.data()) {
      queue.copy(other_.data(), other, bytes);
      other = other_.data();
    }
    const std::array<const void*, 2> two{sum, other};
    queue.math(dtype_).combine(kOnes, two, sum, n);
  }
  for (size_t r = 1; r < ranks_.size(); ++r) {
    queue.copy(term_of(r).values + first * element_bytes, sum, bytes);
  }
  if (nth < part.pieces - 1) return;
  queue.mark(*summed_);
  for (size_t r = 0; r < ranks_.size(); ++r) term_of(r).queue->wait(*summed_);
}

}  // namespace crossbow
