// The processes of one run that a launcher of MPI has started together: the ranks, which train, and
// spares, which may take the places of lost ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/comm.h"
#include "comm/mail.h"
#include "comm/rank_lost.h"  // IWYU pragma: export

namespace crossbow {

/// What all ranks do together. All call the same functions in the same order, from one thread each,
/// while no sum of a Comm is under way and no mail is open.
///
/// If a rank is lost, whoever finds out first has the calls of all others throw RankLost: of the
/// world, of its mails, and of those who wait for its sums. Then all that are left may call
/// `recover`, if the world survives that; by default it does not, and has no spares.
class World {
 public:
  virtual ~World() = default;

  /// Of a spare: `size` or more.
  virtual int rank() const = 0;
  virtual int size() const = 0;  // of ranks: at least 2, but for spares and lost ones
  /// Of a rank: the name of the machine it is on.
  virtual const std::string& host(int rank) const = 0;

  /// Makes these bytes on every rank those of one.
  virtual void broadcast(std::span<std::byte> bytes, int from = 0) = 0;
  /// By rank, what each has passed.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) = 0;
  /// By two ranks: as many bytes as are received, in as many calls.
  virtual void send(std::span<const std::byte> bytes, int to) = 0;
  virtual void receive(std::span<std::byte> bytes, int from) = 0;

  /// For a vector in the host's memory whose parts have so many elements. `notify` is called, by
  /// any thread, when a sum is complete. It must not outlive the world.
  virtual std::unique_ptr<Comm> make_comm(std::span<const int64_t> parts, DType dtype,
                                          std::function<void()> notify) = 0;

  /// For messages with vectors of so many bytes. It must not outlive the world.
  virtual std::unique_ptr<Mail> make_mail(size_t vector_bytes) = 0;

  /// Where the world survives losses: returns on all ranks once all have called it, or throws
  /// RankLost on all that are left.
  virtual void agree() = 0;
  virtual bool survives() const { return false; }
  /// After RankLost, by all that are left, spares too: numbers them anew, in their old order, and
  /// kills lost ones that only stand still, if they are on this machine or the launcher can: one
  /// of two parts of a network that fell apart so ends the other. They are what they say from now
  /// on, perhaps none a rank; if some are done, all are. Comms and mails of before are good for
  /// nothing but to be destroyed. Throws RankLost if another one is lost meanwhile.
  enum class Role : char { spare, rank, done };
  virtual std::vector<LostRank> recover(Role role) = 0;
  virtual bool is_done() const { return false; }
  /// Whether there is no larger part that may have given this one up, and go on. Where there may be
  /// one, `abort` ends this process alone.
  virtual bool prevails() const { return true; }
  /// By all that are left: as many spares as are needed become ranks, with the last numbers, so
  /// that there are as many as at first. Throws RankLost as recover does.
  virtual void take_in_spares() {}

  virtual bool is_spare() const { return false; }
  /// Of a spare, which may call nothing else: returns when a rank is lost; false if rank 0 has
  /// dismissed it.
  virtual bool await_loss() { return false; }
  /// Of rank 0, at the end.
  virtual void dismiss_spares() {}
  /// At the end: has the launcher kill lost ones that may live, for which it would wait.
  virtual void end_unheard() {}

  /// Whether the ranks are threads of this process (comm/thread_world.h).
  virtual bool is_of_threads() const { return false; }

  /// Ends all ranks, after which the launcher exits with that code. Does not return. Any thread.
  virtual void abort(int code) = 0;
};

/// To be called once, before other threads run: joins the others if a launcher has started this
/// process as one of several, and takes a part of the machine if others on it may use the same
/// CPUs. The last `spares` of them, as many as rank 0 says, are spares. Throws Error if a launcher
/// has, and there is no MPI, and UsageError if there is no use for the spares.
void join_world(int spares = 0);
/// Null for a process on its own. Of a thread that is a rank it is that one's.
World* world();
/// Makes the world that of the calling thread, as long as this lives.
class WorldOfThread {
 public:
  explicit WorldOfThread(World& world);
  ~WorldOfThread();
  WorldOfThread(const WorldOfThread&) = delete;
};
inline int world_rank() {
  return world() ? world()->rank() : 0;
}
inline int world_size() {
  return world() ? world()->size() : 1;
}
/// The number that a launcher has given this process, also before it joins others; 0 without one.
int launched_rank();
/// Leaves the others at the end of the process, once all ranks do; nothing for one on its own.
void leave_world();

/// Rank 0's.
template <typename T>
T agreed(T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (World* const all = world()) all->broadcast(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}
std::string agreed(std::string text);
/// What each rank has passed, in their order.
template <typename T>
std::vector<T> gathered(World& all, std::span<const T> own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values;
  for (const auto& bytes : all.all_gather(std::as_bytes(own))) {
    const size_t before = values.size();
    values.resize(before + bytes.size() / sizeof(T));
    std::memcpy(values.data() + before, bytes.data(), bytes.size());
  }
  return values;
}
/// By rank; a process on its own has one.
template <typename T>
std::vector<T> of_all_ranks(const T& value) {
  return world() ? gathered(*world(), std::span(&value, 1)) : std::vector<T>{value};
}
/// Adds up what ranks have at each place, where all but one have 0: so in no order. As many values
/// on every rank.
void merge(std::span<float> values);
void merge(std::span<double> values);

}  // namespace crossbow
