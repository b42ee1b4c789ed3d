// Ranks that are threads of this process: to repeat a run of ranks, and to test one.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/world.h"

namespace crossbow {

/// None of them is lost but by an exception, after which none goes on, and there are no spares. A
/// mail asks its receiver what it wants next, and keeps the rest for later.
class ThreadWorlds {
 public:
  explicit ThreadWorlds(int ranks);
  ~ThreadWorlds();
  ThreadWorlds(const ThreadWorlds&) = delete;

  World& rank(int r);
  /// Calls `use` for each rank, on a thread of its own, where `world()` is that rank's. What the
  /// first of them throws ends the calls of all others with RankLost, and is thrown here.
  void run(const std::function<void(World& world)>& use);

 private:
  class Rank;
  class Post;  // the mail of all
  class ThreadMail;
  class Group;  // a Comm of all
  using Bytes = std::vector<std::byte>;

  /// What all ranks have passed, once they have.
  std::vector<Bytes> exchange(int rank, Bytes own);
  std::shared_ptr<Group> group(size_t number, std::span<const int64_t> parts, DType dtype);
  void send(int from, int to, Bytes bytes);
  Bytes receive(int from, int to);
  /// The first reason is kept.
  void lose(int rank, const std::string& why);
  void expect_all() const;

  const std::unique_ptr<Post> post_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<Bytes> passed_, all_;
  int64_t arrived_ = 0, exchanges_ = 0;
  std::vector<std::shared_ptr<Group>> groups_;             // in the order in which ranks make them
  std::map<std::pair<int, int>, std::deque<Bytes>> sent_;  // by sender and receiver
  std::string lost_;                                       // why
  std::exception_ptr error_;
};

}  // namespace crossbow
