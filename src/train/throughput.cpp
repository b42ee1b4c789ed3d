#include "train/throughput.h"

namespace crossbow {
namespace {

constexpr double kWindowSeconds = 0.25;
constexpr int64_t kWindowIterations = 8;

}  // namespace

void Throughput::begin_segment() {
  mark_ = std::chrono::steady_clock::now();
  marked_ = 0;
}

std::optional<double> Throughput::window(int64_t done, int64_t iteration) {
  if (done == marked_) return {};
  const auto now = std::chrono::steady_clock::now();
  seconds_ += std::chrono::duration<double>(now - mark_).count();
  batches_ += done - marked_;
  mark_ = now;
  marked_ = done;
  if (seconds_ < kWindowSeconds || batches_ < kWindowIterations * iteration) return {};
  const double rate = static_cast<double>(batches_) / seconds_;
  seconds_ = 0;
  batches_ = 0;
  return rate;
}

}  // namespace crossbow
