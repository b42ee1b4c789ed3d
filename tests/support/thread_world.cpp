#include "support/thread_world.h"

#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#include "support/steady_world.h"

namespace crossbow::testing {

/// Messages by the rank that they are for.
class ThreadWorlds::Post {
 public:
  struct Message {
    int from;
    Mail::Header header;
    Bytes vector;
    Mail::Room* asking = nullptr;
    bool is_answer = false;
  };

  explicit Post(int ranks) : waiting_(static_cast<size_t>(ranks)) {}

  void put(int rank, Message message) {
    const std::lock_guard lock(mutex_);
    waiting_[static_cast<size_t>(rank)].push_back(std::move(message));
    ++under_way_;
    changed_.notify_all();
  }
  /// The next one, or nothing if all have closed and there are no more.
  std::optional<Message> take(int rank) {
    std::unique_lock lock(mutex_);
    auto& own = waiting_[static_cast<size_t>(rank)];
    const auto over = [&] { return closed_ == std::ssize(waiting_) && under_way_ == 0; };
    changed_.wait(lock, [&] { return !own.empty() || over(); });
    if (own.empty()) return {};
    Message message = std::move(own.front());
    own.pop_front();
    return message;
  }
  void taken() {
    const std::lock_guard lock(mutex_);
    --under_way_;
    changed_.notify_all();
  }
  void count_closed(int64_t more) {
    const std::lock_guard lock(mutex_);
    closed_ += more;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<Message>> waiting_;
  int64_t under_way_ = 0, closed_ = 0;
};

class ThreadWorlds::ThreadMail final : public Mail {
 public:
  ThreadMail(ThreadWorlds& all, int rank, size_t vector_bytes)
      : all_(all), rank_(rank), vector_bytes_(vector_bytes) {}

  Room& make_room() override {
    return rooms_.emplace_back(vector_bytes_, static_cast<int>(rooms_.size()));
  }
  void open(Receiver& receiver) override {
    thread_ = std::thread([this, &receiver] { work(receiver); });
  }
  void send(int rank, const Header& header, Room& room) override {
    put(rank, header, room, nullptr);
    room.free();
  }
  void ask(int rank, const Header& header, Room& room) override { put(rank, header, room, &room); }
  void close() override {
    all_.post_->count_closed(1);
    thread_.join();
    all_.exchange(rank_, {});  // until all have ended
    all_.post_->count_closed(-1);
    all_.exchange(rank_, {});
  }
  void give_up() override { std::terminate(); }

 private:
  void put(int rank, const Header& header, Room& room, Room* asking) {
    Post::Message message{rank_, header, {}, asking};
    if (header.has_vector) message.vector.assign(room.vector(), room.vector() + vector_bytes_);
    all_.post_->put(rank, std::move(message));
  }
  void work(Receiver& receiver) {
    while (auto m = all_.post_->take(rank_)) {
      if (m->is_answer) {
        std::memcpy(m->asking->vector(), m->vector.data(), vector_bytes_);
        m->asking->free();
        receiver.room_is_free();
      } else {
        m->vector.resize(vector_bytes_);
        receiver.receive(m->header, m->vector.data());
        if (m->asking) {
          all_.post_->put(m->from, {rank_, m->header, std::move(m->vector), m->asking, true});
        }
      }
      all_.post_->taken();
    }
  }

  ThreadWorlds& all_;
  const int rank_;
  const size_t vector_bytes_;
  std::deque<Room> rooms_;
  std::thread thread_;
};

class ThreadWorlds::Rank final : public SteadyWorld {
 public:
  Rank(ThreadWorlds& all, int rank) : all_(all), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return all_.ranks_; }
  void broadcast(std::span<std::byte> bytes, int from) override {
    const std::vector<Bytes> all = all_gather(bytes);
    std::memcpy(bytes.data(), all[static_cast<size_t>(from)].data(), bytes.size());
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override {
    return all_.exchange(rank_, Bytes(bytes.begin(), bytes.end()));
  }
  std::unique_ptr<Comm> make_comm(int64_t n, DType dtype, std::function<void()>) override {
    if (rank_ == 0) {
      const std::vector<Device*> devices(static_cast<size_t>(size()), &find_device("ref"));
      all_.group_ = std::make_shared<LocalGroup>(devices, n, dtype, [] {});
    }
    all_.exchange(rank_, {});
    return std::make_unique<End>(all_.group_, rank_);
  }
  std::unique_ptr<Mail> make_mail(size_t vector_bytes) override {
    return std::make_unique<ThreadMail>(all_, rank_, vector_bytes);
  }

 private:
  /// Keeps the group.
  class End final : public Comm {
   public:
    End(std::shared_ptr<LocalGroup> group, int rank)
        : group_(std::move(group)), end_(group_->rank(rank)) {}
    int rank() const override { return end_.rank(); }
    int size() const override { return end_.size(); }
    Sum start_sum(Queue& queue, void* values, int64_t n) override {
      return end_.start_sum(queue, values, n);
    }
    State state(Sum sum) const override { return end_.state(sum); }
    std::string failure() const override { return end_.failure(); }
    bool advance() override { return end_.advance(); }
    bool can_advance() const override { return end_.can_advance(); }

   private:
    const std::shared_ptr<LocalGroup> group_;
    Comm& end_;
  };

  ThreadWorlds& all_;
  const int rank_;
};

ThreadWorlds::ThreadWorlds(int ranks)
    : ranks_(ranks), post_(std::make_unique<Post>(ranks)), passed_(static_cast<size_t>(ranks)) {}

ThreadWorlds::~ThreadWorlds() = default;

void ThreadWorlds::run(const std::function<void(World&)>& use) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks_; ++r) {
    threads.emplace_back([this, r, &use] {
      Rank world(*this, r);
      use(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<ThreadWorlds::Bytes> ThreadWorlds::exchange(int rank, Bytes own) {
  std::unique_lock lock(mutex_);
  const int64_t number = exchanges_;
  passed_[static_cast<size_t>(rank)] = std::move(own);
  if (++arrived_ == ranks_) {
    arrived_ = 0;
    all_ = passed_;
    ++exchanges_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return exchanges_ > number; });
  return all_;
}

}  // namespace crossbow::testing
