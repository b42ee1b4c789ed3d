#include "comm/mpi_mail.h"

#include <deque>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace crossbow {
namespace {

using Clock = std::chrono::steady_clock;

/// Rooms have numbers, which are those of their messages too: first the rooms of what comes from
/// any rank, then those that were asked for. An answer has the asking room's tag, so it comes
/// straight into that room, whatever else is on its way.
///
/// Nothing can wait in a circle: a room that answers is free when the asker has the answer, for
/// which this has room from when its question has left.
class MpiMail final : public Mail {
 public:
  MpiMail(MpiThread& mpi, int ranks, size_t vector_bytes)
      : mpi_(mpi), vector_bytes_(vector_bytes), sent_(static_cast<size_t>(ranks)) {
    size_for_mpi(vector_bytes + kHeaderBytes);
    for (int r = 0; r < kReceiving; ++r) make_room();
  }

  ~MpiMail() override {
    if (is_lost_) leave_rooms();
  }

  Room& make_room() override {
    const int number = static_cast<int>(rooms_->size());
    if (number >= kMostRooms)
      fail("mail has {} rooms at most, which MPI can tell apart", kMostRooms);
    states_.push_back(State::idle);
    ranks_.push_back(0);
    return rooms_->emplace_back(vector_bytes_, number);
  }

  void open(Receiver& receiver) override {
    receiver_ = &receiver;
    wanted_ = Wanted::open;
    is_open_ = true;
    mpi_.do_later([this] { run(); });
  }
  void send(int rank, const Header& header, Room& room) override { give(rank, header, room, 0); }
  void ask(int rank, const Header& header, Room& room) override {
    give(rank, header, room, tag_of(room));
  }
  void close() override { end_as(Wanted::closed); }
  void give_up() override {
    end_as(Wanted::given_up);
    leave_rooms();
  }

 private:
  /// For good: MPI may read what has not left, and write what comes.
  void leave_rooms() {
    (void)rooms_.release();
    (void)closing_.release();
  }

  static constexpr int kMostRooms = 1 << 14;  // MPI has as many tags, and more
  static constexpr int kToAnybody = 1;        // a tag; World's messages have 0
  /// Of the answers for a room.
  static int64_t tag_of(const Room& room) { return kToAnybody + 1 + room.number(); }
  enum class State { idle, receiving, sending, waiting, answering };
  enum class Wanted { open, closed, given_up };

  Room& room(int number) { return (*rooms_)[static_cast<size_t>(number)]; }
  State& state(int number) { return states_[static_cast<size_t>(number)]; }
  int& rank(int number) { return ranks_[static_cast<size_t>(number)]; }

  void give(int rank, const Header& header, Room& room, int64_t answer_to) {
    room.header() = header;
    room.header().answer_to = answer_to;
    const std::lock_guard lock(mutex_);
    outgoing_.emplace_back(rank, &room);
    called_.notify_one();
  }
  void end_as(Wanted wanted) {
    std::unique_lock lock(mutex_);
    wanted_ = wanted;
    called_.notify_one();
    ended_.wait(lock, [this] { return !is_open_; });
  }

  // All that follows is by the MPI thread.

  void run() {
    try {
      exchange();
    } catch (...) {
      receiver_->lost(std::current_exception());
      is_lost_ = true;
    }
    for (int r = 0; r < static_cast<int>(rooms_->size()); ++r) {
      const bool comes = state(r) == State::receiving || state(r) == State::waiting;
      if (comes && !is_lost_) mpi_.calls().cancel(r);
      state(r) = State::idle;
    }
    const std::lock_guard lock(mutex_);
    is_open_ = false;
    ended_.notify_all();
  }

  void exchange() {
    MpiCalls& calls = mpi_.calls();
    calls.number_messages(static_cast<int>(rooms_->size()));
    std::ranges::fill(sent_, 0);
    received_ = 0;
    for (int r = 0; r < kReceiving; ++r) receive(r);
    closing_ = std::make_unique<Closing>(sent_.size());
    last_event_ = Clock::now();
    while (!is_over(*closing_)) {
      bool busy = send_outgoing();
      while (const auto message = calls.next_ended()) {
        end(message->number, message->from);
        send_outgoing();
        busy = true;
      }
      if (busy) {
        last_event_ = Clock::now();
      } else {
        std::unique_lock lock(mutex_);
        if (outgoing_.empty() && wanted_ == seen_) {
          mpi_.rest(lock, called_, last_event_, under_way_ > 0);
        }
      }
    }
  }

  /// What each rank has sent each other one, once all have closed.
  struct Closing {
    explicit Closing(size_t ranks)
        : pieces(std::vector<int>(ranks, sizeof(int64_t))), to_come(ranks) {}
    const MpiCalls::Pieces pieces;
    std::vector<int64_t> to_come;
    bool begun = false, agreed = false;
  };
  bool is_over(Closing& closing) {
    {
      const std::lock_guard lock(mutex_);
      seen_ = wanted_;
      if (wanted_ == Wanted::given_up) return true;
      if (wanted_ == Wanted::open || !outgoing_.empty()) return false;
    }
    if (!std::exchange(closing.begun, true)) {
      mpi_.calls().all_to_all(reinterpret_cast<const std::byte*>(sent_.data()), closing.pieces,
                              reinterpret_cast<std::byte*>(closing.to_come.data()), closing.pieces);
    }
    if (!closing.agreed) closing.agreed = mpi_.calls().is_done();
    return closing.agreed && under_way_ == 0 &&
           received_ == std::reduce(closing.to_come.begin(), closing.to_come.end());
  }

  void receive(int number) {
    state(number) = State::receiving;
    mpi_.calls().begin_receive(number, bytes_of(room(number)),
                               static_cast<int>(room(number).bytes()), MpiCalls::kAnybody,
                               kToAnybody);
  }
  bool send_outgoing() {
    std::vector<std::pair<int, Room*>> outgoing;
    {
      const std::lock_guard lock(mutex_);
      outgoing.swap(outgoing_);
    }
    for (const auto& [to, room] : outgoing) {
      state(room->number()) = State::sending;
      rank(room->number()) = to;
      ++under_way_;
      ++sent_[static_cast<size_t>(to)];
      mpi_.calls().begin_send(room->number(), bytes_of(*room),
                              static_cast<int>(room->message_bytes()), to, kToAnybody);
    }
    return !outgoing.empty();
  }

  void end(int number, int from) {
    Room& room = this->room(number);
    const Header header = room.header();
    const auto tag = static_cast<int>(header.answer_to);
    const auto vector_bytes = static_cast<int>(vector_bytes_);
    switch (state(number)) {
      case State::receiving:
        ++received_;
        receiver_->receive(header, room.vector());
        if (tag == 0) return receive(number);
        state(number) = State::answering;
        ++under_way_;
        return mpi_.calls().begin_send(number, room.vector(), vector_bytes, from, tag);
      case State::answering:
        --under_way_;
        return receive(number);
      case State::sending:
        if (tag > 0) {
          state(number) = State::waiting;
          return mpi_.calls().begin_receive(number, room.vector(), vector_bytes, rank(number), tag);
        }
        break;
      case State::waiting:
      case State::idle:
        break;
    }
    --under_way_;
    state(number) = State::idle;
    room.free();
    receiver_->room_is_free();
  }

  static std::byte* bytes_of(Room& room) { return room.vector() - kHeaderBytes; }

  MpiThread& mpi_;
  const size_t vector_bytes_;
  std::unique_ptr<std::deque<Room>> rooms_ = std::make_unique<std::deque<Room>>();
  Receiver* receiver_ = nullptr;

  std::mutex mutex_;                             // guards these
  std::condition_variable called_, ended_;       // the MPI thread; who closes
  std::vector<std::pair<int, Room*>> outgoing_;  // to ranks
  Wanted wanted_ = Wanted::open;
  bool is_open_ = false;

  // Of the MPI thread:
  std::vector<State> states_;   // by room
  std::vector<int> ranks_;      // by room: to whom it was sent
  std::vector<int64_t> sent_;   // by rank, answers apart
  int64_t received_ = 0;        // answers apart
  bool is_lost_ = false;        // with a rank
  Wanted seen_ = Wanted::open;  // when it last looked what is wanted
  int under_way_ = 0;           // of what this rank has sent, or waits for
  Clock::time_point last_event_;
  std::unique_ptr<Closing> closing_;
};

}  // namespace

std::unique_ptr<Mail> make_mpi_mail(MpiThread& mpi, int ranks, size_t vector_bytes) {
  return std::make_unique<MpiMail>(mpi, ranks, vector_bytes);
}

}  // namespace crossbow
