#include "data/range_source.h"

#include <algorithm>
#include <cassert>

#include "core/error.h"

namespace crossbow::data {

RangeSource::RangeSource(const Dataset& dataset, std::shared_ptr<const Split> split,
                         const RowOptions& options, int64_t batch, std::span<const int64_t> largest,
                         int held, const AllocatePages& allocate)
    : batch_(batch), rows_(dataset, std::move(split), options) {
  for (size_t holder = 0; holder < largest.size(); ++holder) {
    for (int i = 0; i < held; ++i) {
      slots_.push_back({static_cast<int>(holder),
                        largest[holder],
                        BatchMemory(rows_.format(), largest[holder], allocate),
                        {}});
      slots_.back().batch.fields = slots_.back().memory.addresses();
    }
  }
}

void RangeSource::start(int64_t epoch, int64_t) {
  rows_.start(epoch);
}

RangeSource::Slot& RangeSource::take(int holder) {
  const std::lock_guard lock(mutex_);
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& s) { return !s.held && s.holder == holder; });
  if (slot == slots_.end()) fail("holder {} has as many ranges as it can", holder);
  slot->held = true;
  return *slot;
}

const Batch& RangeSource::acquire(int64_t index) {
  const int64_t first = index * batch_;
  return acquire_rows(first, std::min(batch_, samples() - first), /*holder=*/0);
}

const Batch& RangeSource::acquire_rows(int64_t first, int64_t rows, int holder) {
  assert(first >= 0 && first + rows <= samples());
  Slot& slot = take(holder);
  assert(rows <= slot.room);
  slot.batch.index = first / batch_;
  slot.batch.rows = rows;
  try {
    rows_.write(first, 0, rows, slot.scratch, slot.memory.fields());
  } catch (...) {
    release(slot.batch);
    throw;
  }
  return slot.batch;
}

void RangeSource::release(const Batch& batch) {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (&slot.batch == &batch) slot.held = false;
  }
}

int64_t RangeSource::buffer_bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    bytes += static_cast<int64_t>(BatchMemory::bytes(rows_.format(), slot.room));
  }
  return bytes;
}

}  // namespace crossbow::data
