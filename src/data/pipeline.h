// Batches ready to train on: reads, augments and normalises ahead of the learners, on threads of
// its own, into recycled buffers.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batch_source.h"
#include "data/dataset.h"

namespace crossbow::data {

/// Random changes to each training image, drawn from (seed, epoch, sample); rows have none.
struct Augment {
  /// The image is surrounded by so many pixels of normalised value 0, and a window of its own size
  /// is cut out at random.
  int pad = 0;
  /// Half of the images are flipped left to right.
  bool mirror = false;
};

struct PipelineOptions {
  int64_t batch = 16;
  bool shuffle = false;  // a new order each epoch, from the seed
  Augment augment;
  uint64_t seed = 0;
  int threads = 0;  // 0: one for samples in memory, one a core for samples to be decoded
  /// Number of buffers: batches made ready plus batches in use. It must exceed the number of
  /// batches that learners hold at a time; 0 chooses by the size of a batch. There are no more than
  /// an epoch has batches.
  int depth = 0;
  int least_depth = 0;  // of what 0 chooses
};

/// Serves each epoch's batches in the order of their indices. Every sample comes once an epoch, and
/// what a batch holds depends on the options, the epoch and its index only, not on the number of
/// threads or the time of arrival. Once made it allocates nothing but in `grow`.
///
/// Threads: any number of learners may acquire and release at a time, each index once an epoch, in
/// about ascending order; `start`, `grow` and the destructor to one thread, while no batch is held.
class Pipeline : public BatchSource {
 public:
  Pipeline(const Dataset& dataset, std::shared_ptr<const Split> split,
           const PipelineOptions& options);
  ~Pipeline() override;
  Pipeline(const Pipeline&) = delete;

  int64_t samples() const { return split_->size(); }
  /// Batches in an epoch: samples / batch, rounded up.
  int64_t batches() const { return batches_; }

  /// Begins an epoch at batch `first_batch` (in [0, batches()]), dropping what was under way.
  void start(int64_t epoch, int64_t first_batch = 0);
  /// Blocks until batch `index` is ready; it stays valid until released. Rethrows what went wrong
  /// in making it (the later ones can still be had).
  const Batch& acquire(int64_t index) override;
  void release(const Batch& batch) override;
  void cancel() override;

  /// From now on there are at least so many buffers, or one for each batch of an epoch.
  void grow(int64_t depth);
  /// Bytes of the buffers that there are, and of those that such options ask for.
  int64_t buffer_bytes() const;
  static int64_t buffer_bytes(const BatchFormat& format, int64_t samples,
                              const PipelineOptions& options);

  /// Seconds that callers have spent blocked in `acquire` since `start` or the last such call,
  /// summed over them.
  double take_waited_seconds();

 private:
  enum class State { free, filling, ready, held };
  struct FreeBuffer {
    void operator()(std::byte* p) const;
  };
  struct Slot {
    Batch batch;
    State state = State::free;
    std::array<std::byte*, kFields> fields{};
    std::exception_ptr error;
    std::unique_ptr<std::byte, FreeBuffer> memory;
  };

  void shuffle();
  void work();
  void end();
  bool may_fill() const;
  void fill(Slot& slot, uint8_t* scratch);
  void write_label(int64_t index, std::byte* out) const;
  void write_sample(int64_t index, uint8_t* scratch, float* out) const;
  template <typename T, typename Normalise>
  void write_image(const T* image, int64_t sample, float* out, Normalise normalise) const;
  Slot* find(State state, int64_t index);

  const Shape image_;
  const BatchFormat format_;
  const std::shared_ptr<const Split> split_;
  const PipelineOptions options_;
  const int64_t batches_;
  std::vector<std::array<float, 256>> normalised_;  // pixels, by channel and value

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable can_fill_, made_;
  std::deque<Slot> slots_;       // each stays where it is
  std::vector<uint32_t> order_;  // read without the lock while some slot is filling
  int64_t epoch_ = 0;
  int64_t next_ = 0, end_ = 0;  // batches yet to fill
  int free_ = 0, filling_ = 0, held_ = 0, waiting_ = 0;
  double waited_seconds_ = 0;
  bool stop_ = false, cancelled_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace crossbow::data
