#include "comm/local.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"

namespace crossbow {
namespace {

constexpr int64_t kPiece = 4096;  // elements; stays in the first cache

}  // namespace

class LocalGroup::Rank : public Comm {
 public:
  Rank(LocalGroup& group, int rank) : group_(group), rank_(rank) {}

  void start_sum(void* values, int64_t n) override { group_.start(rank_, values, n); }
  bool complete(int64_t operation) const override { return group_.complete(operation); }
  bool advance() override { return group_.advance(); }
  bool can_advance() const override { return group_.can_advance(); }

  std::byte* values = nullptr;  // of the operation that this rank started last

 private:
  LocalGroup& group_;
  const int rank_;
};

LocalGroup::LocalGroup(int ranks, int64_t elements, int64_t element_bytes, const VectorMath& math,
                       std::function<void()> notify)
    : elements_(elements),
      element_bytes_(element_bytes),
      pieces_((elements + kPiece - 1) / kPiece),
      math_(math),
      notify_(std::move(notify)) {
  for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<Rank>(*this, r));
}

LocalGroup::~LocalGroup() = default;

Comm& LocalGroup::rank(int r) {
  return *ranks_[static_cast<size_t>(r)];
}

void LocalGroup::start(int rank, void* values, int64_t n) {
  if (n != elements_) fail("a sum of {} elements among ranks that have {}", n, elements_);
  ranks_[static_cast<size_t>(rank)]->values = static_cast<std::byte*>(values);
  if ((started_.fetch_add(1, std::memory_order_acq_rel) + 1) % ranks() == 0) notify_();
}

bool LocalGroup::complete(int64_t operation) const {
  return computed_.load(std::memory_order_acquire) >= (operation + 1) * pieces_;
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

void LocalGroup::compute(int64_t piece) {
  const int64_t first = piece * kPiece, n = std::min(kPiece, elements_ - first);
  const auto at = [&](int r) {
    return ranks_[static_cast<size_t>(r)]->values + first * element_bytes_;
  };
  constexpr std::array<double, 2> kOnes{1, 1};
  for (int r = 1; r < ranks(); ++r) {
    const std::array<const void*, 2> terms{at(0), at(r)};
    math_.combine(kOnes, terms, at(0), n);
  }
  for (int r = 1; r < ranks(); ++r) {
    std::memcpy(at(r), at(0), static_cast<size_t>(n * element_bytes_));
  }
}

}  // namespace crossbow
