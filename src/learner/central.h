// A device's copy of the central model z, and the exchanges that change it.
#pragma once

#include <functional>
#include <vector>

#include "comm/comm.h"
#include "device/device.h"
#include "learner/lockstep.h"
#include "learner/noise_probe.h"
#include "learner/scheduler.h"
#include "plan/program.h"
#include "sync/sync.h"

namespace crossbow {

/// What one exchange reads and writes of the learners, by learner.
struct ExchangeInput {
  double lr = 0;
  std::vector<const void*> terms;  // weights or gradients
  std::vector<const Event*> made;  // when the terms are there
  std::vector<double> factors;     // their shares in the mean
  std::vector<void*> weights;      // after the step
  /// For the noise scale, of batches of one size: gradients, or decaying sums; else null.
  std::vector<const void*> gradients;
};

/// Beside steps z is kept twice: an exchange reads the one and writes the other, and the next one
/// the other way round. So do the learners with their weights. Beside the steps' passes the mean is
/// kept until all learners have been pulled towards it.
///
/// An exchange is cut into pieces (of Device::exchange_piece, or parameters). Those who wait for
/// it, or begin it, give them to the central queue, where each takes the next one until none is
/// left; on the CPU that is to compute it. Where a device exchanges the whole, one gives all of
/// them. The order of the sums does not depend on who computes them.
///
/// Several devices have a copy each and take part in every exchange: each sums up what its own
/// learners have, `Comm` adds up the devices' sums, and of these each makes the same new z.
/// Gradients may be added up in buckets: each when the learners' steps have passed it. z changes
/// only when all of their sums are there, so that a rank that is lost leaves z as it was before an
/// exchange or as it is afterwards.
class Central {
 public:
  /// Which of the process's devices this is, and how it reaches the others; null if it is alone.
  struct Rank {
    Device& device;
    int index = 0;
    Comm* comm = nullptr;
    std::span<const ParameterLayout::Piece> buckets;  // the comm's parts, the vector's end first
    bool probes = true;                               // its learners give the noise scale
  };

  /// Fills in what the exchange of the segment's iteration i needs; called by any worker, at times
  /// when the device's learners have done what that exchange waits for. Each vector keeps its size.
  using Describe = std::function<void(int64_t iteration, ExchangeInput& input)>;

  /// A worker's own memory for computing chunks.
  class Scratch {
   public:
    Scratch(const Central& central, int learners);

   private:
    friend class Central;
    ExchangeInput input_;
    std::vector<const void*> terms_, gradients_;
    std::vector<void*> weights_, state_;
    Buffer mean_;
    int64_t described_exchange_ = -1;  // of the run, which input_ belongs to
  };

  /// For algorithms that average gradients: the optimizer that takes their mean, and the limit of
  /// its norm, 0 for none. One device adds what its learners' gradients say to `noise_scale`.
  Central(std::shared_ptr<const SyncAlgorithm> sync, const Lockstep& lockstep,
          const ParameterLayout& layout, const Optimizer& optimizer, double clip_norm,
          const Rank& rank, int learners, NoiseScale& noise_scale);

  /// Which of two buffers, of z and of the learners' weights, is valid after that many exchanges of
  /// the segment (after the last segment: 0 for now).
  int side(int64_t exchanges = 0) const {
    return lockstep_.two_sides() ? static_cast<int>((side_ + exchanges) & 1) : 0;
  }
  std::byte* z(int side) const { return z_[side].data(); }
  /// The last exchange's, of all learners, where they are pulled towards it.
  std::byte* mean() const { return mean_.data(); }
  /// What a checkpoint needs beside z: the z before, the algorithm's own buffers, the noise
  /// probe's.
  std::vector<std::byte*> state() const;
  /// The optimizer's, where the central model is what it updates.
  std::span<const Buffer> slots() const { return slots_; }

  void start(Describe describe);
  /// Exchanges of the segment that are complete.
  int64_t completed() const { return closed_.load(std::memory_order_acquire) / phase_count(); }
  /// Ends a segment, so many of whose exchanges are complete; the rest is of no account.
  void finish(int64_t exchanges);
  /// Whether this device's learners give the noise scale.
  bool measures() const { return probe_ != nullptr; }

  /// Does what it can of the first `count` without waiting. Any worker.
  void begin(int64_t count, Scheduler& scheduler, Scratch& scratch);
  /// Returns when the segment's first `count` exchanges have been given to the central queue,
  /// having given of them what it could; what `queue` is given from now on sees their results.
  /// False if the segment failed. Any worker.
  bool complete(int64_t count, Scheduler& scheduler, Scratch& scratch, Queue& queue);

  /// Waits for all that was given to the central queue, whatever became of it.
  void drain() { queue_->drain(); }

  /// Seconds that all threads together have spent computing exchanges, and waiting for learners.
  double working_seconds() const { return static_cast<double>(working_) * 1e-9; }
  double waiting_seconds() const { return static_cast<double>(waiting_) * 1e-9; }

 private:
  /// What is done of some pieces' chunks: of all of them, before any chunk is in the next phase.
  struct Phase {
    int64_t first = 0, end = 0;  // the pieces
    int after_parts = 0;         // of the steps, which the learners have passed; 0: all
    bool waits_for_sum = false;  // that Comm makes
    bool mean = false;           // of this device's learners
    bool norm = false;           // of the mean, whose scale follows from those of all chunks
    bool apply = false;          // the algorithm
    bool starts_sum = false;     // of the devices' means, after the last chunk
  };
  /// Which phase, counted through all exchanges, and which of its chunks.
  struct Chunk {
    int64_t block, index;
  };
  /// As few as there can be: a phase ends where all chunks are needed for what follows.
  std::vector<Phase> phases() const;

  int64_t piece_count() const { return static_cast<int64_t>(pieces_.size()); }
  int64_t chunk_count(const Phase& phase) const {
    return rank_.device.exchanges_whole() ? 1 : phase.end - phase.first;
  }
  /// By its number among the segment's.
  Chunk chunk_at(int64_t number) const;
  int64_t phase_count() const { return static_cast<int64_t>(phases_.size()); }
  const Phase& phase_of(int64_t block) const {
    return phases_[static_cast<size_t>(block % phase_count())];
  }
  int64_t exchange_of(int64_t block) const { return block / phase_count(); }
  bool ready(int64_t block, const Scheduler& scheduler) const;
  /// A chunk of the blocks before `goal`, if one can be computed now; else false.
  bool work(int64_t goal, Scheduler& scheduler, Scratch& scratch);
  void compute(int64_t block, int64_t chunk, Scratch& scratch);
  void compute_piece(int64_t block, int64_t piece, Scratch& scratch);
  /// Follows upon a block's last chunk.
  void close(int64_t block);

  const std::shared_ptr<const SyncAlgorithm> sync_;
  const Lockstep& lockstep_;
  const Optimizer optimizer_;
  const double clip_norm_;
  const int64_t elements_, element_bytes_;
  const Rank rank_;
  const std::vector<ParameterLayout::Piece> pieces_;  // none is of two buckets
  const std::unique_ptr<Queue> queue_;
  const VectorMath& math_;
  const std::vector<Phase> phases_;
  Buffer z_[2];
  int64_t side_ = 0;
  std::vector<Buffer> state_, slots_;
  Buffer mean_;    // where it outlives a phase, or is of one chunk
  Buffer limits_;  // with a clip norm: squared norms by piece, then the gradient's scale
  std::unique_ptr<Event> made_;  // the last exchange given
  NoiseScale& noise_scale_;
  const std::unique_ptr<NoiseProbe> probe_;  // of one device, if it can be measured
  bool measured_ = false;                    // in the exchange that runs
  std::atomic<Comm::Sum> sum_{0};            // of the devices, the last one started
  Describe describe_;

  // Chunks, which are what one worker gives, of the segment: those of all phases and exchanges
  // counted through. A block is all chunks of one phase; none of its chunks is claimed before the
  // last block is closed.
  std::atomic<int64_t> claimed_{0}, computed_{0}, closed_{0};
  std::atomic<int64_t> working_{0}, waiting_{0};  // nanoseconds
};

}  // namespace crossbow
