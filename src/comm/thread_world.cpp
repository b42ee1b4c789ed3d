#include "comm/thread_world.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "comm/local.h"
#include "core/error.h"
#include "core/threads.h"

namespace crossbow {

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
  /// The next one that the receiver wants, or nothing if all have closed and there are no more.
  std::optional<Message> take(int rank, Mail::Receiver& receiver) {
    std::unique_lock lock(mutex_);
    auto& own = waiting_[static_cast<size_t>(rank)];
    for (;;) {
      if (!lost_.empty()) throw RankLost(lost_);
      const auto next = std::ranges::find_if(
          own, [&](const Message& m) { return m.is_answer || receiver.wants(m.header); });
      if (next != own.end()) {
        Message message = std::move(*next);
        own.erase(next);
        return message;
      }
      const bool all_closed = closed_ == std::ssize(waiting_);
      if (all_closed && under_way_ == 0) return {};
      if (all_closed && !own.empty()) fail("messages have come that the order has no place for");
      changed_.wait(lock);
    }
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
  void look_again() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  void lose(const std::string& why) {
    const std::lock_guard lock(mutex_);
    lost_ = why;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<Message>> waiting_;
  int64_t under_way_ = 0, closed_ = 0;
  std::string lost_;
};

/// Each rank is told of what another one does.
class ThreadWorlds::Group {
 public:
  Group(size_t ranks, std::span<const int64_t> parts, DType dtype)
      : notifies_(ranks),
        sums_(std::vector<Device*>(ranks, &find_device("cpu")), parts, dtype,
              [this] { notify(); }) {}

  LocalGroup& sums() { return sums_; }
  /// An empty one: of a rank that is not to be told any more.
  void set_notify(int rank, std::function<void()> notify) {
    const std::lock_guard lock(mutex_);
    notifies_[static_cast<size_t>(rank)] = std::move(notify);
  }

 private:
  void notify() {
    const std::lock_guard lock(mutex_);
    for (const auto& notify : notifies_) {
      if (notify) notify();
    }
  }

  std::mutex mutex_;  // guards whom to notify
  std::vector<std::function<void()>> notifies_;
  LocalGroup sums_;
};

class ThreadWorlds::ThreadMail final : public Mail {
 public:
  ThreadMail(ThreadWorlds& all, int rank, size_t vector_bytes)
      : all_(all), rank_(rank), vector_bytes_(vector_bytes) {}

  Room& make_room() override {
    return rooms_.emplace_back(vector_bytes_, static_cast<int>(rooms_.size()));
  }
  void open(Receiver& receiver) override {
    thread_ = start_thread([this, &receiver] { work(receiver); });
  }
  void send(int rank, const Header& header, Room& room) override {
    put(rank, header, room, nullptr);
    room.free();
  }
  void ask(int rank, const Header& header, Room& room) override { put(rank, header, room, &room); }
  void look_again() override { all_.post_->look_again(); }
  void close() override {
    all_.post_->count_closed(1);
    thread_.join();
    try {
      all_.exchange(rank_, {});  // until all have ended
      all_.post_->count_closed(-1);
      all_.exchange(rank_, {});
    } catch (const RankLost&) {
      // What the rank does next with the others says so.
    }
  }
  void give_up() override {
    all_.lose(rank_, "it has given up");
    thread_.join();
  }

 private:
  void put(int rank, const Header& header, Room& room, Room* asking) {
    Post::Message message{rank_, header, {}, asking};
    if (header.has_vector) message.vector.assign(room.vector(), room.vector() + vector_bytes_);
    all_.post_->put(rank, std::move(message));
  }
  void work(Receiver& receiver) {
    try {
      exchange(receiver);
    } catch (...) {
      receiver.lost(std::current_exception());
      all_.lose(rank_, "its mail has failed");
    }
  }
  void exchange(Receiver& receiver) {
    while (auto m = all_.post_->take(rank_, receiver)) {
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

class ThreadWorlds::Rank final : public World {
 public:
  Rank(ThreadWorlds& all, int rank) : all_(all), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(all_.ranks_.size()); }
  const std::string& host(int) const override { return host_; }
  bool is_of_threads() const override { return true; }

  void broadcast(std::span<std::byte> bytes, int from) override {
    const std::vector<Bytes> all = all_gather(bytes);
    std::ranges::copy(all[static_cast<size_t>(from)], bytes.begin());
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override {
    return all_.exchange(rank_, Bytes(bytes.begin(), bytes.end()));
  }
  void send(std::span<const std::byte> bytes, int to) override {
    all_.send(rank_, to, Bytes(bytes.begin(), bytes.end()));
  }
  void receive(std::span<std::byte> bytes, int from) override {
    std::ranges::copy(all_.receive(from, rank_), bytes.begin());
  }
  std::unique_ptr<Comm> make_comm(std::span<const int64_t> parts, DType dtype,
                                  std::function<void()> notify) override {
    return std::make_unique<End>(all_.group(comms_++, parts, dtype), rank_, std::move(notify));
  }
  std::unique_ptr<Mail> make_mail(size_t vector_bytes) override {
    return std::make_unique<ThreadMail>(all_, rank_, vector_bytes);
  }

  void agree() override { all_.exchange(rank_, {}); }
  std::vector<LostRank> recover(Role) override { throw RankLost("a thread is not survived"); }
  void abort(int code) override { std::_Exit(code); }

 private:
  /// Keeps the group.
  class End final : public Comm {
   public:
    End(std::shared_ptr<Group> group, int rank, std::function<void()> notify)
        : group_(std::move(group)), end_(group_->sums().rank(rank)) {
      group_->set_notify(rank, std::move(notify));
    }
    ~End() override { group_->set_notify(rank(), {}); }
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
    const std::shared_ptr<Group> group_;
    Comm& end_;
  };

  ThreadWorlds& all_;
  const int rank_;
  const std::string host_ = "this process";
  size_t comms_ = 0;
};

ThreadWorlds::ThreadWorlds(int ranks)
    : post_(std::make_unique<Post>(ranks)), passed_(static_cast<size_t>(ranks)) {
  for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<Rank>(*this, r));
}

ThreadWorlds::~ThreadWorlds() = default;

World& ThreadWorlds::rank(int r) {
  return *ranks_[static_cast<size_t>(r)];
}

void ThreadWorlds::run(const std::function<void(World&)>& use) {
  const auto attempt = [this](int r, const std::function<void()>& what) {
    try {
      what();
    } catch (const RankLost& e) {
      lose(r, e.what());
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
      lose(r, "it has ended");
    }
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < std::ssize(ranks_); ++r) {
    attempt(r, [&] {
      threads.push_back(start_thread([this, r, &use, &attempt] {
        const WorldOfThread own(rank(r));
        attempt(r, [&] { use(rank(r)); });
      }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error_) std::rethrow_exception(error_);
  expect_all();
}

std::vector<ThreadWorlds::Bytes> ThreadWorlds::exchange(int rank, Bytes own) {
  std::unique_lock lock(mutex_);
  expect_all();
  const int64_t number = exchanges_;
  passed_[static_cast<size_t>(rank)] = std::move(own);
  if (++arrived_ == std::ssize(ranks_)) {
    arrived_ = 0;
    all_ = passed_;
    ++exchanges_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return exchanges_ > number || !lost_.empty(); });
  if (exchanges_ == number) expect_all();
  return all_;
}

std::shared_ptr<ThreadWorlds::Group> ThreadWorlds::group(size_t number,
                                                         std::span<const int64_t> parts,
                                                         DType dtype) {
  const std::lock_guard lock(mutex_);
  if (number == groups_.size()) {
    groups_.push_back(std::make_shared<Group>(ranks_.size(), parts, dtype));
  }
  return groups_[number];
}

void ThreadWorlds::send(int from, int to, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  sent_[{from, to}].push_back(std::move(bytes));
  changed_.notify_all();
}

ThreadWorlds::Bytes ThreadWorlds::receive(int from, int to) {
  std::unique_lock lock(mutex_);
  auto& sent = sent_[{from, to}];
  changed_.wait(lock, [&] { return !sent.empty() || !lost_.empty(); });
  if (sent.empty()) expect_all();
  Bytes bytes = std::move(sent.front());
  sent.pop_front();
  return bytes;
}

void ThreadWorlds::lose(int rank, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return;
  lost_ = fmt::format("rank {} is lost: {}", rank, why);
  changed_.notify_all();
  post_->lose(lost_);
  for (const auto& group : groups_) group->sums().lose(rank, why);
}

void ThreadWorlds::expect_all() const {
  if (!lost_.empty()) throw RankLost(lost_);
}

}  // namespace crossbow
