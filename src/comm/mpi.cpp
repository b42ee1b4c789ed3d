#include "comm/mpi.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "comm/connections.h"
#include "comm/mpi_mail.h"
#include "comm/mpi_thread.h"
#include "comm/neighbour.h"
#include "core/error.h"
#include "core/machine.h"

namespace crossbow {
namespace {

using Clock = std::chrono::steady_clock;

/// CROSSBOW_SUM_DELAY: seconds by which the sum of a whole vector ends later, and that of a part as
/// its size says, to show on one machine what a slow network does. 0 if unset.
std::chrono::duration<double> added_delay() {
  const char* const seconds = std::getenv("CROSSBOW_SUM_DELAY");
  return std::chrono::duration<double>(seconds ? std::strtod(seconds, nullptr) : 0);
}

/// Sums of vectors over all ranks.
class MpiComm final : public Comm {
 public:
  MpiComm(MpiThread& mpi, int rank, int size, std::span<const int64_t> parts, DType dtype,
          std::function<void()> notify)
      : mpi_(mpi),
        rank_(rank),
        size_(size),
        element_bytes_(static_cast<int64_t>(size_of(dtype))),
        dtype_(dtype),
        notify_(std::move(notify)) {
    const auto all = static_cast<double>(std::accumulate(parts.begin(), parts.end(), int64_t{0}));
    size_t received = 0;
    for (const int64_t n : parts) {
      MpiCalls::Pieces shares = shares_of(n);
      const int own = shares.sizes[static_cast<size_t>(rank)];
      MpiCalls::Pieces terms(std::vector<int>(static_cast<size_t>(size), own));
      received = std::max(received, static_cast<size_t>(own) * static_cast<size_t>(size));
      const auto delay = added_delay() * (static_cast<double>(n) / all);
      parts_.push_back({n, own / element_bytes_, std::move(shares), std::move(terms), delay});
    }
    received_ = Buffer(received);
  }
  ~MpiComm() override {
    mpi_.do_now([](MpiCalls&) {});  // until what was started is over
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Sum start_sum(Queue& queue, void* values, int64_t n) override {
    const Part& part = parts_[static_cast<size_t>(sums_) % parts_.size()];
    if (n != part.elements) {
      fail("a sum of {} elements among ranks that have {}", n, part.elements);
    }
    queue.finish();
    const VectorMath& math = queue.math(dtype_);
    mpi_.do_later([this, &math, &part, values] {
      if (failed_.load(std::memory_order_relaxed)) return;  // as all sums behind one that has
      try {
        add_up(math, part, static_cast<std::byte*>(values));
        done_.fetch_add(1, std::memory_order_release);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex_);
        failure_ = error.what();
        failed_.store(true, std::memory_order_release);
      }
      notify_();
    });
    return sums_++;
  }
  State state(Sum sum) const override {
    if (done_.load(std::memory_order_acquire) > sum) return State::done;
    return failed_.load(std::memory_order_acquire) ? State::failed : State::running;
  }
  std::string failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool advance() override { return false; }  // the thread does
  bool can_advance() const override { return false; }

 private:
  struct Part {
    int64_t elements, own;    // the latter: what this rank adds up
    MpiCalls::Pieces shares;  // what each rank adds up
    MpiCalls::Pieces terms;   // of this rank's share: what each rank has
    std::chrono::duration<double> delay;
  };

  /// Of so many elements: what each rank adds up, all but the last of one size.
  MpiCalls::Pieces shares_of(int64_t n) const {
    constexpr int64_t kAligned = 64;  // elements
    const int64_t share = (n / size_ + kAligned) / kAligned * kAligned;
    std::vector<int> bytes;
    for (int r = 0; r < size_; ++r) {
      const int64_t first = std::min(n, r * share), end = std::min(n, first + share);
      bytes.push_back(size_for_mpi(static_cast<size_t>((end - first) * element_bytes_)));
    }
    return MpiCalls::Pieces(std::move(bytes));
  }

  void add_up(const VectorMath& math, const Part& part, std::byte* values) {
    // Whoever has started a part goes on computing, up to the last one.
    const bool crowded = &part != &parts_.back();
    mpi_.calls().all_to_all(values, part.shares, received_.data(), part.terms);
    mpi_.wait(crowded);
    constexpr std::array<double, 2> kOnes{1, 1};
    for (size_t r = 1; part.own > 0 && r < static_cast<size_t>(size_); ++r) {
      const std::array<const void*, 2> two{received_.data(), part.terms.of(received_.data(), r)};
      math.combine(kOnes, two, received_.data(), part.own);
    }
    mpi_.calls().all_gather(received_.data(), values, part.shares);
    mpi_.wait(crowded);
    if (part.delay.count() > 0) {
      mpi_.wait_until([end = Clock::now() + part.delay] { return Clock::now() >= end; }, crowded);
    }
  }

  MpiThread& mpi_;
  const int rank_, size_;
  const int64_t element_bytes_;
  const DType dtype_;
  const std::function<void()> notify_;
  std::vector<Part> parts_;
  Buffer received_;  // of the sum under way
  Sum sums_ = 0;
  std::atomic<Sum> done_{0};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards the failure
  std::string failure_;
};

class MpiWorld final : public World {
 public:
  explicit MpiWorld(int spares) {
    mpi_.join();
    std::string host;
    mpi_.do_now([&](const MpiCalls& calls) {
      rank_ = calls.process();
      size_ = calls.processes();
      host = calls.host();
      survives_ = calls.survives();
    });
    if (size_ < 2) {
      fail(
          "a launcher has started several processes, and MPI ({}) knows of one: start them by the "
          "launcher of that MPI",
          mpi_.calls().version());
    }
    if (spares > 0) expect_use_of(spares);
    const std::vector<ProcessId> processes = of_all(ProcessId::own());
    std::string own = host;  // and addresses
    for (const std::string& address : own_addresses()) own += ' ' + address;
    const auto machines = all_gather(std::as_bytes(std::span(own)));
    for (size_t r = 0; r < machines.size(); ++r) {
      std::istringstream words(
          std::string(reinterpret_cast<const char*>(machines[r].data()), machines[r].size()));
      std::string name;
      words >> name;
      std::set<std::string> addresses{std::istream_iterator<std::string>(words), {}};
      const bool here = name == host;
      neighbours_.emplace_back(static_cast<int>(r), std::move(name), std::move(addresses), here,
                               processes[r]);
    }
    wanted_ = size_ - of_all(spares)[0];  // or ranks that were told otherwise would wait in vain
    share_cpus();
    choose_first(wanted_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& host(int rank) const override {
    return neighbours_[static_cast<size_t>(rank)].host();
  }

  void broadcast(std::span<std::byte> bytes, int from) override {
    in_pieces(bytes.size(), [&](MpiCalls& calls, size_t first, int size) {
      calls.broadcast(bytes.data() + first, size, from);
    });
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes) override {
    std::vector<std::vector<std::byte>> by_rank;
    mpi_.do_now([&](MpiCalls& calls) {
      const auto ranks = static_cast<size_t>(size_);
      const int own = size_for_mpi(bytes.size());
      std::vector<int> sizes(ranks);
      const MpiCalls::Pieces numbers(std::vector<int>(ranks, sizeof(int)));
      calls.all_gather(reinterpret_cast<const std::byte*>(&own),
                       reinterpret_cast<std::byte*>(sizes.data()), numbers);
      mpi_.wait();
      const MpiCalls::Pieces pieces(std::move(sizes));
      std::vector<std::byte> all(static_cast<size_t>(pieces.begins.back() + pieces.sizes.back()));
      calls.all_gather(bytes.data(), all.data(), pieces);
      mpi_.wait();
      for (size_t r = 0; r < ranks; ++r) {
        const std::byte* const first = pieces.of(all.data(), r);
        by_rank.emplace_back(first, first + pieces.sizes[r]);
      }
    });
    return by_rank;
  }
  void send(std::span<const std::byte> bytes, int to) override {
    in_pieces(bytes.size(), [&](MpiCalls& calls, size_t first, int size) {
      calls.send(bytes.data() + first, size, to);
    });
  }
  void receive(std::span<std::byte> bytes, int from) override {
    in_pieces(bytes.size(), [&](MpiCalls& calls, size_t first, int size) {
      calls.receive(bytes.data() + first, size, from);
    });
  }
  std::unique_ptr<Comm> make_comm(std::span<const int64_t> parts, DType dtype,
                                  std::function<void()> notify) override {
    return std::make_unique<MpiComm>(mpi_, rank_, size_, parts, dtype, std::move(notify));
  }
  std::unique_ptr<Mail> make_mail(size_t vector_bytes) override {
    return make_mpi_mail(mpi_, size_, vector_bytes);
  }
  bool survives() const override { return survives_; }
  void agree() override {
    if (!survives_) return;
    mpi_.do_now([&](MpiCalls& calls) {
      calls.agree();
      mpi_.wait();
    });
  }
  bool is_done() const override { return is_done_; }
  bool prevails() const override { return prevails_; }
  bool is_spare() const override { return rank_ >= size_; }
  bool await_loss() override {
    bool is_lost = false;
    mpi_.do_now([&](MpiCalls& calls) {
      try {
        calls.await_dismissal(neighbours_[0].process());
        mpi_.wait();
      } catch (const RankLost&) {
        is_lost = true;
      }
    });
    return is_lost;
  }
  void dismiss_spares() override {
    mpi_.do_now([&](MpiCalls& calls) {
      for (auto spare = static_cast<size_t>(size_); spare < neighbours_.size(); ++spare) {
        try {
          calls.dismiss(neighbours_[spare].process());
          mpi_.wait();
        } catch (const RankLost&) {
          // It needs no dismissal any more.
        }
      }
    });
  }
  std::vector<LostRank> recover(Role role) override {
    std::vector<int> left;
    mpi_.do_now([&](MpiCalls& calls) { left = calls.shrink(); });
    std::vector<int> out_of_reach;
    for (int r = 0; r < std::ssize(neighbours_); ++r) {
      Neighbour& neighbour = neighbours_[static_cast<size_t>(r)];
      const auto now = std::ranges::find(left, neighbour.process());
      if (now != left.end()) {
        neighbour.set_process(static_cast<int>(now - left.begin()));
      } else {
        lost_.push_back({r, neighbour.host()});
        if (!neighbour.is_within_reach()) out_of_reach.push_back(neighbour.process());
        neighbour.set_process(-1);
      }
    }
    prevails_ = prevails_ && is_larger_part(left, out_of_reach);
    const int own = neighbours_[static_cast<size_t>(rank_)].process();
    if (own < 0) {  // it woke, or was cut off; MPI is of no use to it any more
      fmt::print(stderr,
                 "crossbow: rank {} on {}: the others go on without it, as it did not answer\n",
                 rank_, host(rank_));
      ::kill(getpid(), SIGKILL);
    }
    const auto first_lost =
        std::stable_partition(neighbours_.begin(), neighbours_.end(),
                              [](const Neighbour& n) { return n.process() >= 0; });
    std::vector<Neighbour> lost(std::make_move_iterator(first_lost),
                                std::make_move_iterator(neighbours_.end()));
    neighbours_.erase(first_lost, neighbours_.end());
    part_with(lost);
    // All processes are ranks now, in their order: so it stays if one more is lost here.
    std::ranges::sort(neighbours_, {}, &Neighbour::process);
    size_ = static_cast<int>(neighbours_.size());
    rank_ = own;
    const std::vector<Role> roles = of_all(role);
    // Not before all have parted with them: the launcher wakes whom it kills.
    const std::span<const int> unheard(unheard_);
    if (prevails_) have_killed(unheard.subspan(std::exchange(killed_, unheard_.size())));
    is_done_ = std::ranges::find(roles, Role::done) != roles.end();
    std::stable_partition(neighbours_.begin(), neighbours_.end(), [&](const Neighbour& n) {
      return roles[static_cast<size_t>(n.process())] != Role::spare;
    });
    const auto place = std::ranges::find(neighbours_, own, &Neighbour::process);
    rank_ = static_cast<int>(place - neighbours_.begin());
    choose_first(static_cast<int>(std::ssize(roles) - std::ranges::count(roles, Role::spare)));
    return std::exchange(lost_, {});
  }
  void take_in_spares() override {
    choose_first(std::min<int>(wanted_, static_cast<int>(neighbours_.size())));
  }
  void abort(int code) override {
    // An exit status would have Open MPI's launcher end the larger part, too.
    if (!prevails_) ::kill(getpid(), SIGKILL);
    mpi_.abort(code);
  }
  void end_unheard() override { have_killed(unheard_); }

 private:
  /// Of a network that fell apart, by the processes' numbers before: one part at most is. Of two
  /// halves it is that of the first process. Those left are in their order.
  static bool is_larger_part(std::span<const int> left, std::span<const int> out_of_reach) {
    if (left.size() != out_of_reach.size()) return left.size() > out_of_reach.size();
    return left.front() < *std::ranges::min_element(out_of_reach);
  }
  void have_killed(std::span<const int> first_numbers) {
    if (first_numbers.empty()) return;
    mpi_.do_now([&](MpiCalls& calls) {
      if (calls.process() == 0) calls.kill(first_numbers);
    });
  }
  /// Of lost ones nothing is to be heard any more. Those that were cut off and come back would
  /// mislead Open MPI's failure detector, so that all lose each other.
  void part_with(std::vector<Neighbour>& lost) {
    std::set<std::string> addresses;
    for (Neighbour& neighbour : lost) {
      neighbour.end();
      if (neighbour.is_within_reach()) continue;
      unheard_.push_back(neighbour.first_process());
      addresses.insert(neighbour.addresses().begin(), neighbour.addresses().end());
    }
    for (const Neighbour& neighbour : neighbours_) {
      for (const std::string& address : neighbour.addresses()) addresses.erase(address);
    }
    end_connections(addresses);
  }

  void expect_use_of(int spares) const {
    if (!survives_) {
      fail_usage(
          "--spares {}: by this MPI or its launcher a lost rank ends the others, so that none "
          "could take its place; scripts/cluster --survivors brings one by which they go on",
          spares);
    }
    if (spares >= size_) {
      fail_usage("--spares {}: of {} ranks one at least must train", spares, size_);
    }
  }

  /// The first processes, in the order of the neighbours, become the ranks.
  void choose_first(int ranks) {
    if (ranks < std::ssize(neighbours_) || size_ != ranks) {
      mpi_.do_now([&](MpiCalls& calls) { calls.choose_ranks(rank_ < ranks, rank_); });
    }
    size_ = ranks;
  }

  void in_pieces(size_t bytes, const std::function<void(MpiCalls&, size_t, int)>& begin) {
    constexpr size_t kPiece = size_t{1} << 30;
    mpi_.do_now([&](MpiCalls& calls) {
      for (size_t first = 0; first < bytes; first += kPiece) {
        begin(calls, first, static_cast<int>(std::min(kPiece, bytes - first)));
        mpi_.wait();
      }
    });
  }

  template <typename T>
  std::vector<T> of_all(const T& value) {
    return gathered(*this, std::span(&value, 1));
  }

  /// The processes of a machine share its memory and its CPU quota. The ranks among them that may
  /// use the same CPUs, as all where the launcher binds nobody, share these out; a spare has those
  /// of a rank.
  void share_cpus() {
    cpu_set_t own;
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof own, &own);
    const std::vector<cpu_set_t> all = of_all(own);
    int here = 0, alike = 0, place = 0;
    for (int r = 0; r < size_; ++r) {
      if (host(r) != host(rank_)) continue;
      ++here;
      if (!CPU_EQUAL(&all[static_cast<size_t>(r)], &own)) continue;
      if (r < rank_) ++place;
      if (r < wanted_) ++alike;
    }
    alike = std::max(alike, 1);
    share_machine(place % alike, alike, here);
  }

  MpiThread mpi_;
  int rank_ = 0, size_ = 1;
  int wanted_ = 1;  // ranks, as long as there are spares
  bool survives_ = false, is_done_ = false;
  bool prevails_ = true;  // is, of all parts of a network that fell apart, the one that goes on
  std::vector<Neighbour> neighbours_;  // ranks by their numbers, this one too, and then spares
  std::vector<LostRank> lost_;         // that recover has not told of
  std::vector<int> unheard_;           // first numbers of lost ones that may live
  size_t killed_ = 0;                  // of these the first so many, by the launcher
};

}  // namespace

std::unique_ptr<World> join_mpi(int spares) {
  return std::make_unique<MpiWorld>(spares);
}

std::string mpi_version() {
  std::string why;
  const MpiCalls* const calls = load_mpi_calls(why);
  return calls ? calls->version() : "none";
}

}  // namespace crossbow
