#include "learner/retries.h"

#include <algorithm>
#include <cstring>

namespace crossbow {

void Retries::add(const data::Batch& batch) {
  const auto copy_of = [&](const void* from, int64_t row_bytes) {
    Buffer copy(static_cast<size_t>(shape_.rows * row_bytes));
    std::memcpy(copy.data(), from, static_cast<size_t>(batch.rows * row_bytes));
    return copy;
  };
  Copy copy{batch, copy_of(batch.images, shape_.image_elements * int64_t{sizeof(float)}),
            copy_of(batch.labels, sizeof(int32_t))};
  copy.batch.images = copy.images.as<float>();
  copy.batch.labels = copy.labels.as<int32_t>();
  const std::lock_guard lock(mutex_);
  copies_.push_back(std::move(copy));
  waiting_.push_back(batch.index);
}

std::optional<int64_t> Retries::oldest() const {
  if (waiting_.empty()) return {};
  return *std::min_element(waiting_.begin(), waiting_.end());
}

int64_t Retries::take() {
  const int64_t index = *oldest();
  std::erase(waiting_, index);
  return index;
}

const data::Batch& Retries::acquire(int64_t index) {
  const std::lock_guard lock(mutex_);
  const auto of_index = [&](const Copy& copy) { return copy.batch.index == index; };
  return std::find_if(copies_.begin(), copies_.end(), of_index)->batch;
}

void Retries::release(const data::Batch& batch) {
  const std::lock_guard lock(mutex_);
  copies_.remove_if([&](const Copy& copy) { return &copy.batch == &batch; });
}

}  // namespace crossbow
