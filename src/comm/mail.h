// Messages between ranks at any time, beside sums: who sends does not wait for who receives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "device/buffer.h"

namespace crossbow {

/// One rank's end. A message is a header, perhaps with a vector of the mail's size. Messages of
/// many threads of a rank may be under way at a time, each in a room of its own.
class Mail {
 public:
  /// What the ends agree on.
  struct Header {
    int32_t kind = 0;
    int32_t from = 0, to = 0;  // whatever ranks number
    int32_t has_vector = 0;
    double number = 0;
    int64_t sequence = 0;   // messages that `from` has sent this rank before
    int64_t answer_to = 0;  // of the mail: to which of the asker's rooms; 0: it is no question
  };
  static constexpr size_t kHeaderBytes = 64;
  static_assert(sizeof(Header) <= kHeaderBytes);

  /// A header and a vector in a row. Who takes it writes the vector and hands it to `send` or
  /// `ask`; then it is the mail's until it is free again.
  class Room {
   public:
    Room(size_t vector_bytes, int number) : bytes_(kHeaderBytes + vector_bytes), number_(number) {}

    std::byte* vector() const { return bytes_.data() + kHeaderBytes; }
    bool is_free() const { return !taken_.load(std::memory_order_acquire); }
    void take() { taken_.store(true, std::memory_order_relaxed); }

    // Of the mail:
    Header& header() const { return *reinterpret_cast<Header*>(bytes_.data()); }
    size_t message_bytes() const { return header().has_vector ? bytes_.size() : kHeaderBytes; }
    size_t bytes() const { return bytes_.size(); }
    int number() const { return number_; }
    void free() { taken_.store(false, std::memory_order_release); }

   private:
    Buffer bytes_;
    const int number_;
    std::atomic<bool> taken_{false};
  };

  /// Called by a thread of the mail's, one message after the other, between `open` and `close`.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    /// Of a mail that may hold messages back: whether this is the one to be received next.
    virtual bool wants(const Header&) { return true; }
    /// Has a vector if the header says so. Of a question the answer takes the vector's place.
    virtual void receive(const Header& header, std::byte* vector) = 0;
    /// A room is free again: what was sent has left it, or the answer is in it.
    virtual void room_is_free() = 0;
    /// No more messages are exchanged: `close` returns at once.
    virtual void lost(std::exception_ptr error) = 0;
  };

  /// Rooms that there are for what arrives: one message is received, one is taken, and one is
  /// answered.
  static constexpr int kReceiving = 3;

  virtual ~Mail() = default;

  /// Before the first `open`. Stays as long as the mail.
  virtual Room& make_room() = 0;

  /// From now on messages may be sent and are received. All ranks do the same.
  virtual void open(Receiver& receiver) = 0;
  /// Sends what the room holds, which is free when that has left. Any thread.
  virtual void send(int rank, const Header& header, Room& room) = 0;
  /// The same, and has the answer's vector put into the room.
  virtual void ask(int rank, const Header& header, Room& room) = 0;
  /// The receiver may want another message than before. Any thread, not from within `wants`.
  virtual void look_again() {}
  /// To be called when this rank sends no more, and has all its answers. Returns when all ranks
  /// have called it, what this one has sent has left, and what it was sent is received; until then
  /// it goes on receiving, and answers. Before the next `open` all ranks must meet.
  virtual void close() = 0;
  /// In place of `close`, of a rank that is about to end all of them.
  virtual void give_up() = 0;
};

}  // namespace crossbow
