// The calls of MPI that Crossbow makes. They are a module, loaded by a process that a launcher has
// started: no other process needs MPI, and a module for another MPI may take its place.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace crossbow {

/// Among ranks, in bytes. At first they are all processes of MPI_COMM_WORLD; `choose_ranks` makes
/// some of these spares. All calls are to be made by one thread, and throw Error; RankLost if a
/// rank is lost, after which no process can do anything but `shrink`. Those that say "begins" end
/// when `is_done` says so; until then their arguments must stay, and no other may begin.
class MpiCalls {
 public:
  virtual ~MpiCalls() = default;

  /// "Open MPI v4.1.4"; at any time.
  virtual std::string version() const = 0;
  virtual void initialise() = 0;
  virtual void finalise() = 0;
  [[noreturn]] virtual void abort(int code) = 0;

  /// Whether this MPI has ULFM, and the launcher leaves others alone when a rank ends.
  virtual bool survives() const = 0;
  /// Of all processes that are left: numbers them anew, makes them ranks, and forgets all that had
  /// begun. Returns their numbers of before.
  virtual std::vector<int> shrink() = 0;
  /// By all processes: those with true are ranks, in the order of `key`, and the others are spares.
  virtual void choose_ranks(bool is_rank, int key) = 0;
  /// Begins to wait for all ranks to begin this: it ends for all of them, or throws RankLost on
  /// all.
  virtual void agree() = 0;
  /// Tells the others that this process lives, as any call does: to be called several times a
  /// second.
  virtual void give_sign_of_life() = 0;
  /// Begins to wait for what another process, by its number, sends by `dismiss`.
  virtual void await_dismissal(int process) = 0;
  virtual void dismiss(int process) = 0;
  /// Has the launcher kill processes, by their numbers at the start, if it can: half a second at
  /// most.
  virtual void kill(std::span<const int> first_numbers) = 0;

  /// The number of this process among all, and how many there are.
  virtual int process() const = 0;
  virtual int processes() const = 0;
  virtual std::string host() const = 0;

  /// Where pieces of several ranks lie in one buffer.
  struct Pieces {
    explicit Pieces(std::vector<int> sizes);
    std::vector<int> sizes, begins;
    std::byte* of(std::byte* all, size_t rank) const { return all + begins[rank]; }
  };
  /// Begins to hand one rank's bytes to all.
  virtual void broadcast(std::byte* bytes, int size, int from) = 0;
  /// Begins to hand every rank's piece to all.
  virtual void all_gather(const std::byte* own, std::byte* all, const Pieces& pieces) = 0;
  /// Begins to send each rank its piece of `from`, and to receive a piece from each.
  virtual void all_to_all(const std::byte* from, const Pieces& sent, std::byte* to,
                          const Pieces& received) = 0;
  /// Begins one message between two ranks, in order.
  virtual void send(const std::byte* bytes, int size, int to) = 0;
  virtual void receive(std::byte* bytes, int size, int from) = 0;
  /// Moves data, too: MPI need not do so while nobody calls it.
  virtual bool is_done() = 0;

  /// Messages of which many are under way at a time, beside what is above. Each has a number below
  /// this one, and its arguments must stay, until `next_ended` gives the number or it is cancelled.
  virtual void number_messages(int n) = 0;
  /// The tag says which receivers it is for.
  virtual void begin_send(int number, const std::byte* bytes, int size, int to, int tag) = 0;
  /// Of whom it comes, kAnybody says nothing; no more bytes than these.
  static constexpr int kAnybody = -1;
  virtual void begin_receive(int number, std::byte* bytes, int size, int from, int tag) = 0;
  struct Ended {
    int number, from;  // the latter of what was received
  };
  /// Moves data, too.
  virtual std::optional<Ended> next_ended() = 0;
  /// Of what is received. Does not throw.
  virtual void cancel(int number) = 0;
};

/// What the module exports under this name: the one object, which stays. The number grows with each
/// change of the class, as older modules are not to be called.
using MpiModule = MpiCalls*();
constexpr const char* kMpiModule = "crossbow_mpi_calls_4";

}  // namespace crossbow
