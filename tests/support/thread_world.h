// Ranks that are threads of one process.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/local.h"
#include "comm/world.h"

namespace crossbow::testing {

class ThreadWorlds {
 public:
  explicit ThreadWorlds(int ranks);
  ~ThreadWorlds();

  /// Calls `use` for each rank, on a thread of its own. It must not throw.
  void run(const std::function<void(World& world)>& use);

 private:
  class Rank;
  class Post;  // the mail of all
  class ThreadMail;
  using Bytes = std::vector<std::byte>;

  /// What all ranks have passed, once they have.
  std::vector<Bytes> exchange(int rank, Bytes own);

  const int ranks_;
  const std::unique_ptr<Post> post_;
  std::shared_ptr<LocalGroup> group_;  // the last that was made
  std::mutex mutex_;                   // guards all below
  std::condition_variable changed_;
  std::vector<Bytes> passed_, all_;
  int64_t arrived_ = 0, exchanges_ = 0;
};

}  // namespace crossbow::testing
