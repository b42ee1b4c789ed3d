#include "data/pipeline.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/threads.h"

namespace crossbow::data {
namespace {

constexpr size_t kPage = 4096;

size_t round_to_page(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

/// Learners come first: preparing input must not take a core from them while batches are at hand.
void lower_priority_of_this_thread() {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + 10);
}

int default_threads(const Split& split) {
  return split.in_memory() ? 1 : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Each begins at a page.
size_t bytes_of_fields(const BatchFormat& format, int64_t batch) {
  size_t bytes = 0;
  for (const Field& field : format.fields) bytes += round_to_page(field.bytes(batch));
  return bytes;
}

int64_t batches_of(int64_t samples, int64_t batch) {
  return (samples + batch - 1) / batch;
}

int64_t depth_of(const PipelineOptions& options, int64_t samples) {
  // Little batches need more of them ahead, so that a thread is woken for many at a time.
  const int64_t chosen = std::clamp<int64_t>(128 / options.batch, 4, 64);
  const int64_t depth =
      options.depth > 0 ? options.depth : std::max<int64_t>(chosen, options.least_depth);
  return std::min(depth, batches_of(samples, options.batch));
}

/// Splits that are not in memory have pixels.
bool has_pixels(const Split& split) {
  if (!split.in_memory()) return true;
  return split.size() > 0 && std::holds_alternative<const uint8_t*>(split.sample(0, nullptr));
}

/// Empty for samples that are no pixels.
std::vector<std::array<float, 256>> normalisation_table(const Split& split, const Info& info) {
  if (!has_pixels(split)) return {};
  const int64_t channels = info.image[0];
  const Normalisation& n = info.normalisation;
  if (channels < 1 || channels > 3) fail("images have 1 to 3 channels, not {}", channels);
  std::vector<std::array<float, 256>> table(static_cast<size_t>(channels));
  for (size_t c = 0; c < table.size(); ++c) {
    for (int v = 0; v < 256; ++v) {
      table[c][v] = static_cast<float>((v / 255.0 - n.mean[c]) / n.std[c]);
    }
  }
  return table;
}

}  // namespace

void Pipeline::FreeBuffer::operator()(std::byte* p) const {
  ::operator delete(p, std::align_val_t(kPage));
}

Pipeline::Pipeline(const Dataset& dataset, std::shared_ptr<const Split> split,
                   const PipelineOptions& options)
    : image_(dataset.info.image),
      format_(dataset.info.batch_format()),
      split_(std::move(split)),
      options_(options),
      batches_(options.batch < 1 ? 0 : batches_of(split_->size(), options.batch)),
      normalised_(normalisation_table(*split_, dataset.info)) {
  if (options.batch < 1) fail_usage("a batch holds at least 1 sample, not {}", options.batch);
  if (options.augment.pad < 0) fail_usage("a pad of {} pixels is negative", options.augment.pad);
  if (split_->size() > std::numeric_limits<uint32_t>::max()) {
    fail("{} holds more samples than can be put in order", dataset.info.name);
  }
  grow(depth_of(options, split_->size()));
  order_.resize(static_cast<size_t>(split_->size()));
  const int threads = options.threads > 0 ? options.threads : default_threads(*split_);
  try {
    for (int t = 0; t < threads; ++t) threads_.push_back(start_thread([this] { work(); }));
  } catch (...) {
    end();
    throw;
  }
}

Pipeline::~Pipeline() {
  end();
}

void Pipeline::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  can_fill_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pipeline::grow(int64_t depth) {
  const size_t bytes = bytes_of_fields(format_, options_.batch);
  const std::lock_guard lock(mutex_);
  while (static_cast<int64_t>(slots_.size()) < std::min(depth, batches_)) {
    Slot slot;
    slot.memory.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kPage))));
    std::byte* at = slot.memory.get();
    for (size_t i = 0; i < kFields; ++i) {
      slot.fields[i] = at;
      slot.batch.fields[i] = at;
      at += round_to_page(format_.fields[i].bytes(options_.batch));
    }
    slots_.push_back(std::move(slot));
    ++free_;
  }
  can_fill_.notify_all();
}

int64_t Pipeline::buffer_bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(slots_.size() * bytes_of_fields(format_, options_.batch));
}

int64_t Pipeline::buffer_bytes(const BatchFormat& format, int64_t samples,
                               const PipelineOptions& options) {
  return depth_of(options, samples) * static_cast<int64_t>(bytes_of_fields(format, options.batch));
}

void Pipeline::start(int64_t epoch, int64_t first_batch) {
  std::unique_lock lock(mutex_);
  if (held_ > 0) fail("an epoch begins only when all batches of the last are released");
  if (first_batch < 0 || first_batch > batches_) {
    fail("an epoch of {} batches cannot begin at batch {}", batches_, first_batch);
  }
  end_ = next_;
  made_.wait(lock, [this] { return filling_ == 0; });

  for (Slot& slot : slots_) {
    slot.state = State::free;
    slot.error = nullptr;
  }
  free_ = static_cast<int>(slots_.size());
  epoch_ = epoch;
  shuffle();
  next_ = first_batch;
  end_ = batches_;
  waited_seconds_ = 0;
  cancelled_ = false;
  can_fill_.notify_all();
}

/// Fisher-Yates, from the identity, so that an epoch's order does not depend on the one before.
void Pipeline::shuffle() {
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  Rng rng(options_.seed, Purpose::shuffle, static_cast<uint32_t>(epoch_));
  for (size_t n = order_.size(); n > 1; --n) {
    std::swap(order_[n - 1], order_[rng.below(static_cast<uint32_t>(n))]);
  }
}

const Batch& Pipeline::acquire(int64_t index) {
  std::unique_lock lock(mutex_);
  if (index < 0 || index >= end_) fail("there is no batch {} in an epoch of {}", index, end_);
  Slot* slot = find(State::ready, index);
  if (!slot) {
    const auto begin = std::chrono::steady_clock::now();
    ++waiting_;
    can_fill_.notify_all();
    made_.wait(lock, [&] {
      slot = find(State::ready, index);
      return slot || cancelled_ || (index < next_ && !find(State::filling, index));
    });
    --waiting_;
    waited_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!slot && cancelled_) fail("batch {} is not waited for any more", index);
    if (!slot) fail("batch {} was served before, or the epoch began after it", index);
  }
  ++held_;
  slot->state = State::held;
  if (!slot->error) return slot->batch;

  const std::exception_ptr error = std::exchange(slot->error, nullptr);
  lock.unlock();
  release(slot->batch);
  std::rethrow_exception(error);
}

void Pipeline::release(const Batch& batch) {
  bool wake;
  {
    const std::lock_guard lock(mutex_);
    Slot* const slot = find(State::held, batch.index);
    assert(slot);
    slot->state = State::free;
    --held_;
    ++free_;
    wake = may_fill();
  }
  if (wake) can_fill_.notify_all();
}

void Pipeline::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  made_.notify_all();
}

double Pipeline::take_waited_seconds() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waited_seconds_, 0);
}

Pipeline::Slot* Pipeline::find(State state, int64_t index) {
  for (Slot& slot : slots_) {
    if (slot.state == state && slot.batch.index == index) return &slot;
  }
  return nullptr;
}

/// A thread sleeps until half of the buffers are free, unless a learner waits: then it works on a
/// row of batches, and few batches cost a wake-up.
bool Pipeline::may_fill() const {
  return next_ < end_ && free_ > 0 &&
         (2 * free_ >= static_cast<int>(slots_.size()) || waiting_ > 0);
}

void Pipeline::work() {
  lower_priority_of_this_thread();
  std::vector<uint8_t> scratch(split_->in_memory() ? 0 : static_cast<size_t>(image_.elements()));
  std::unique_lock lock(mutex_);
  for (;;) {
    can_fill_.wait(lock, [this] { return stop_ || may_fill(); });
    while (!stop_ && next_ < end_ && free_ > 0) {
      Slot& slot = *std::find_if(slots_.begin(), slots_.end(),
                                 [](const Slot& s) { return s.state == State::free; });
      slot.state = State::filling;
      slot.batch.index = next_++;
      --free_;
      ++filling_;
      lock.unlock();
      fill(slot, scratch.data());
      lock.lock();
      slot.state = State::ready;
      --filling_;
      made_.notify_all();
    }
    if (stop_) return;
  }
}

void Pipeline::fill(Slot& slot, uint8_t* scratch) {
  const int64_t first = slot.batch.index * options_.batch;
  slot.batch.rows = std::min(options_.batch, split_->size() - first);
  try {
    auto* const samples = reinterpret_cast<float*>(slot.fields[kSamples]);
    const auto label_bytes = static_cast<int64_t>(format_.fields[kLabels].row_bytes());
    for (int64_t row = 0; row < slot.batch.rows; ++row) {
      const int64_t index = order_[static_cast<size_t>(first + row)];
      write_label(index, slot.fields[kLabels] + row * label_bytes);
      write_sample(index, scratch, samples + row * image_.elements());
    }
    for (size_t i = 0; i < kFields; ++i) {
      const Field& field = format_.fields[i];
      std::fill(slot.fields[i] + field.bytes(slot.batch.rows),
                slot.fields[i] + field.bytes(options_.batch), std::byte{0});
    }
  } catch (...) {
    slot.error = std::current_exception();
  }
}

void Pipeline::write_label(int64_t index, std::byte* out) const {
  const Field& field = format_.fields[kLabels];
  if (field.dtype == DType::i32) {
    *reinterpret_cast<int32_t*>(out) = split_->label(index);
    return;
  }
  auto* const targets = reinterpret_cast<float*>(out);
  std::fill_n(targets, field.row_elements, 0.0f);
  for (const int32_t label : split_->label_set(index)) targets[label] = 1;
}

/// The normalising table is exact and the same on every machine; a multiply-add need not be.
void Pipeline::write_sample(int64_t index, uint8_t* scratch, float* out) const {
  const Sample sample = split_->sample(index, scratch);
  if (const auto* const row = std::get_if<SparseRow>(&sample)) {
    std::fill_n(out, image_.elements(), 0.0f);
    for (size_t i = 0; i < row->columns.size(); ++i) out[row->columns[i]] = row->values[i];
  } else if (const auto* const numbers = std::get_if<const float*>(&sample)) {
    if (image_.rank() == 1) {
      std::copy_n(*numbers, image_.elements(), out);
    } else {
      write_image(*numbers, index, out, [](int64_t, float value) { return value; });
    }
  } else {
    write_image(std::get<const uint8_t*>(sample), index, out, [this](int64_t c, uint8_t pixel) {
      return normalised_[static_cast<size_t>(c)][pixel];
    });
  }
}

template <typename T, typename Normalise>
void Pipeline::write_image(const T* image, int64_t sample, float* out, Normalise normalise) const {
  const int64_t height = image_[1], width = image_[2];
  Rng rng(options_.seed, Purpose::augment, static_cast<uint32_t>(epoch_),
          static_cast<uint64_t>(sample));
  const auto draw_shift = [&]() -> int64_t {
    const int pad = options_.augment.pad;
    return pad > 0 ? int64_t{rng.below(2 * static_cast<uint32_t>(pad) + 1)} - pad : 0;
  };
  const int64_t down = draw_shift(), right = draw_shift();
  const bool mirror = options_.augment.mirror && rng.below(2) == 1;
  const int64_t begin = std::clamp<int64_t>(-right, 0, width);
  const int64_t end = std::clamp<int64_t>(width - right, begin, width);
  for (int64_t c = 0; c < image_[0]; ++c) {
    for (int64_t y = 0; y < height; ++y, out += width) {
      const int64_t from = y + down;
      if (from < 0 || from >= height) {
        std::fill_n(out, width, 0.0f);
        continue;
      }
      const T* in = image + (c * height + from) * width + right;
      std::fill_n(out, begin, 0.0f);
      for (int64_t x = begin; x < end; ++x) out[x] = normalise(c, in[x]);
      std::fill(out + end, out + width, 0.0f);
      if (mirror) std::reverse(out, out + width);
    }
  }
}

}  // namespace crossbow::data
