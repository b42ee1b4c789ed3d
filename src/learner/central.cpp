#include "learner/central.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/rank_lost.h"

namespace crossbow {
namespace {

/// Adds the time of its life to a count of nanoseconds.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<int64_t>& total) : total_(total) {}
  Stopwatch(const Stopwatch&) = delete;
  ~Stopwatch() {
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start_;
    total_.fetch_add(time.count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t>& total_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// So that none is of two buckets, which are those of the vector's end first.
std::vector<ParameterLayout::Piece> cut(const std::vector<ParameterLayout::Piece>& pieces,
                                        std::span<const ParameterLayout::Piece> buckets) {
  std::vector<ParameterLayout::Piece> all;
  for (ParameterLayout::Piece piece : pieces) {
    for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
      const int64_t before = bucket->first - piece.first;
      if (before <= 0 || before >= piece.elements) continue;
      all.push_back({piece.first, before, piece.decay});
      piece = {bucket->first, piece.elements - before, piece.decay};
    }
    all.push_back(piece);
  }
  return all;
}

}  // namespace

Central::Scratch::Scratch(const Central& central, int learners)
    : terms_(static_cast<size_t>(learners)),
      gradients_(static_cast<size_t>(learners)),
      weights_(static_cast<size_t>(learners)),
      state_(central.state_.size()) {
  if (!central.mean_.data()) {
    const int64_t largest = ParameterLayout::largest(central.pieces_);
    mean_ = Buffer(static_cast<size_t>(largest * central.element_bytes_));
  }
  input_.terms.resize(static_cast<size_t>(learners));
  input_.made.resize(static_cast<size_t>(learners));
  input_.factors.resize(static_cast<size_t>(learners));
  input_.weights.resize(static_cast<size_t>(learners));
  input_.gradients.resize(static_cast<size_t>(learners));
}

std::vector<Central::Phase> Central::phases() const {
  std::vector<Phase> all;
  Phase phase{.end = piece_count()};
  if (rank_.comm) {
    for (int64_t end = piece_count(); const ParameterLayout::Piece& bucket : rank_.buckets) {
      const auto piece =
          std::ranges::lower_bound(pieces_, bucket.first, {}, &ParameterLayout::Piece::first);
      const int64_t first = piece - pieces_.begin();
      const int parts = first > 0 ? static_cast<int>(all.size()) + 1 : 0;
      all.push_back(
          {.first = first, .end = end, .after_parts = parts, .mean = true, .starts_sum = true});
      end = first;
    }
    phase.waits_for_sum = true;
  } else {
    phase.mean = true;
  }
  if (clip_norm_ > 0) {
    phase.norm = true;
    all.push_back(std::exchange(phase, {.end = piece_count()}));
  }
  phase.apply = true;
  all.push_back(phase);
  return all;
}

Central::Central(std::shared_ptr<const SyncAlgorithm> sync, const Lockstep& lockstep,
                 const ParameterLayout& layout, const Optimizer& optimizer, double clip_norm,
                 const Rank& rank, int learners, NoiseScale& noise_scale)
    : sync_(std::move(sync)),
      lockstep_(lockstep),
      optimizer_(optimizer),
      clip_norm_(sync_->traits().averages_gradients ? clip_norm : 0),
      elements_(layout.parameter_elements),
      element_bytes_(static_cast<int64_t>(size_of(layout.dtype))),
      rank_(rank),
      pieces_(cut(sync_->traits().averages_gradients
                      ? layout.pieces(optimizer_, rank.device.exchange_piece())
                      : layout.pieces(rank.device.exchange_piece()),
                  rank.buckets)),
      queue_(rank.device.make_urgent_queue()),
      math_(queue_->math(layout.dtype)),
      phases_(phases()),
      made_(rank.device.make_event()),
      noise_scale_(noise_scale),
      probe_(rank.probes
                 ? NoiseProbe::make(*sync_, optimizer_, learners, rank.device, piece_count(),
                                    static_cast<size_t>(elements_ * element_bytes_))
                 : nullptr) {
  Device& device = rank.device;
  const auto bytes = static_cast<size_t>(elements_ * element_bytes_);
  z_[0] = device.allocate_zeroed(bytes);
  if (lockstep_.two_sides()) z_[1] = device.allocate_zeroed(bytes);
  for (int i = 0; i < sync_->traits().state_buffers; ++i) {
    state_.push_back(device.allocate_zeroed(bytes));
  }
  const size_t slots = sync_->traits().averages_gradients ? optimizer_.slots.size() : 0;
  for (size_t i = 0; i < slots; ++i) slots_.push_back(device.allocate_zeroed(bytes));
  if (lockstep_.pulls_to_mean() || phases_.size() > 1 || device.exchanges_whole()) {
    mean_ = device.allocate(bytes);
  }
  if (clip_norm_ > 0) limits_ = device.allocate((pieces_.size() + 1) * sizeof(double));
}

std::vector<std::byte*> Central::state() const {
  std::vector<std::byte*> buffers;
  if (lockstep_.two_sides()) buffers.push_back(z(side(1)));
  for (const Buffer& buffer : state_) buffers.push_back(buffer.data());
  if (probe_ && probe_->before()) buffers.push_back(probe_->before());
  return buffers;
}

void Central::start(Describe describe) {
  describe_ = std::move(describe);
  claimed_ = computed_ = closed_ = 0;
}

void Central::finish(int64_t exchanges) {
  side_ += exchanges;
  if (probe_) probe_->collect(noise_scale_);
}

bool Central::ready(int64_t block, const Scheduler& scheduler) const {
  if (closed_.load(std::memory_order_acquire) < block) return false;
  const Phase& phase = phase_of(block);
  if (phase.waits_for_sum) {
    const Comm::State state = rank_.comm->state(sum_.load(std::memory_order_relaxed));
    if (state == Comm::State::failed) throw RankLost(rank_.comm->failure());
    return state == Comm::State::done;
  }
  if (!phase.mean) return true;
  const int64_t iterations = lockstep_.needed_to_exchange(exchange_of(block));
  return phase.after_parts == 0 ? scheduler.completed(rank_.index) >= iterations
                                : scheduler.passed(rank_.index, iterations - 1, phase.after_parts);
}

Central::Chunk Central::chunk_at(int64_t number) const {
  int64_t of_exchange = 0;
  for (const Phase& phase : phases_) of_exchange += chunk_count(phase);
  Chunk chunk{number / of_exchange * phase_count(), number % of_exchange};
  for (; chunk.index >= chunk_count(phase_of(chunk.block)); ++chunk.block) {
    chunk.index -= chunk_count(phase_of(chunk.block));
  }
  return chunk;
}

bool Central::work(int64_t goal, Scheduler& scheduler, Scratch& scratch) {
  for (;;) {
    int64_t next = claimed_.load(std::memory_order_acquire);
    const auto [block, chunk] = chunk_at(next);
    if (block >= goal || !ready(block, scheduler)) return false;
    if (!claimed_.compare_exchange_weak(next, next + 1)) continue;
    const Stopwatch watch(working_);
    compute(block, chunk, scratch);
    const int64_t computed = computed_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (computed == next - chunk + chunk_count(phase_of(block))) {
      close(block);
      scheduler.notify();
    }
    return true;
  }
}

void Central::begin(int64_t count, Scheduler& scheduler, Scratch& scratch) {
  while (work(count * phase_count(), scheduler, scratch)) {
  }
}

bool Central::complete(int64_t count, Scheduler& scheduler, Scratch& scratch, Queue& queue) {
  const int64_t goal = count * phase_count();
  bool alive = true;
  while (alive && closed_.load(std::memory_order_acquire) < goal) {
    if (work(goal, scheduler, scratch)) continue;
    if (rank_.comm && rank_.comm->can_advance()) {
      const Stopwatch watch(working_);
      rank_.comm->advance();
    } else {
      const Stopwatch watch(waiting_);
      alive = scheduler.wait([&] {
        const int64_t unclaimed = chunk_at(claimed_.load(std::memory_order_acquire)).block;
        return closed_.load(std::memory_order_acquire) >= goal ||
               (unclaimed < goal && ready(unclaimed, scheduler)) ||
               (rank_.comm && rank_.comm->can_advance());
      });
    }
  }
  queue.wait(*made_);
  return alive;
}

void Central::close(int64_t block) {
  const Phase& phase = phase_of(block);
  if (phase.norm) {
    double* const sums = limits_.as<double>();
    math_.find_clip_scale(clip_norm_, sums, piece_count(), sums + piece_count());
  }
  if (std::exchange(measured_, false)) probe_->close(*queue_, noise_scale_);
  if (phase.apply) queue_->mark(*made_);
  if (phase.starts_sum) {
    const int64_t first = pieces_[static_cast<size_t>(phase.first)].first;
    const ParameterLayout::Piece& last = pieces_[static_cast<size_t>(phase.end) - 1];
    sum_.store(rank_.comm->start_sum(*queue_, mean_.data() + first * element_bytes_,
                                     last.first + last.elements - first),
               std::memory_order_relaxed);
  }
  closed_.store(block + 1, std::memory_order_release);
}

void Central::compute(int64_t block, int64_t chunk, Scratch& scratch) {
  const Phase& phase = phase_of(block);
  if (!rank_.device.exchanges_whole()) return compute_piece(block, phase.first + chunk, scratch);
  for (int64_t piece = phase.first; piece < phase.end; ++piece) {
    compute_piece(block, piece, scratch);
  }
}

void Central::compute_piece(int64_t block, int64_t piece, Scratch& s) {
  const Phase& phase = phase_of(block);
  const int64_t exchange = exchange_of(block), index = lockstep_.exchanges() + exchange;
  const auto& [begin, n, decay] = pieces_[static_cast<size_t>(piece)];
  const int64_t first = begin * element_bytes_;
  const auto at = [&](auto* span) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(span)>>,
                                    const std::byte, std::byte>;
    return span ? static_cast<Byte*>(span) + first : nullptr;
  };
  if (s.described_exchange_ != index) {
    describe_(lockstep_.iteration_of(exchange), s.input_);
    s.described_exchange_ = index;
  }
  for (size_t j = 0; j < s.terms_.size(); ++j) {
    s.terms_[j] = at(s.input_.terms[j]);
    s.weights_[j] = at(s.input_.weights[j]);
  }
  for (size_t i = 0; i < state_.size(); ++i) s.state_[i] = at(state_[i].data());
  std::byte* const mean = mean_.data() ? at(mean_.data()) : s.mean_.data();
  double* const sums = limits_.as<double>();
  if (phase.mean && piece == 0) {  // of the last bucket, so the steps are done
    for (const Event* made : s.input_.made) queue_->wait(*made);
  }
  const bool measures = phase.mean && probe_ && s.input_.gradients[0] &&
                        probe_->due(index - lockstep_.joined(), lockstep_.period());
  if (measures) {
    for (size_t j = 0; j < s.gradients_.size(); ++j) s.gradients_[j] = at(s.input_.gradients[j]);
    probe_->measure(math_, piece, first, s.gradients_, n, mean);
    if (piece == 0) measured_ = true;
  }
  if (phase.mean) math_.combine(s.input_.factors, s.terms_, mean, n);
  if (phase.norm) math_.squared_norm(mean, n, sums + piece);
  if (!phase.apply) return;
  sync_->apply({.math = math_,
                .n = n,
                .index = index,
                .lr = s.input_.lr,
                .gradient_scale = clip_norm_ > 0 ? sums + piece_count() : nullptr,
                .decay = decay,
                .mean = mean,
                .z = at(z(side(exchange))),
                .previous_z = at(z(side(exchange + 1))),
                .next_z = at(z(side(exchange + 1))),
                .weights = s.weights_,
                .state = s.state_,
                .optimizer = &optimizer_,
                .slots = addresses_of(slots_, first)});
}

}  // namespace crossbow
