#include "learner/retries.h"

#include <algorithm>
#include <cstring>

namespace crossbow {

void Retries::add(const data::Batch& batch) {
  Copy copy{batch, {}};
  for (size_t i = 0; i < kFields; ++i) {
    const Field& field = shape_.format.fields[i];
    copy.fields[i] = Buffer(field.bytes(shape_.rows));
    const size_t bytes = field.bytes(batch.rows);
    if (bytes > 0) std::memcpy(copy.fields[i].data(), batch.fields[i], bytes);
    copy.batch.fields[i] = copy.fields[i].data();
  }
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
