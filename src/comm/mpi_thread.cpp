#include "comm/mpi_thread.h"

#include <dlfcn.h>
#include <omp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <numeric>

#include "core/error.h"

namespace crossbow {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kSignOfLife{100};
/// How long a thread that awaits something leaves the core for moments only.
constexpr std::chrono::milliseconds kYielding{5};
constexpr std::chrono::microseconds kShortestNap{100};
constexpr std::chrono::milliseconds kLongestNap{10};

/// `crowded`: a learner computes on the core, which each nap's end takes time of.
Clock::duration nap_after(Clock::duration waited, bool crowded) {
  return std::clamp<Clock::duration>(waited / (crowded ? 10 : 1000), kShortestNap, kLongestNap);
}

/// Of the processor, that the process's other threads have had.
std::chrono::nanoseconds time_of_others() {
  const auto time_of = [](clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  return time_of(CLOCK_PROCESS_CPUTIME_ID) - time_of(CLOCK_THREAD_CPUTIME_ID);
}

/// Where the loader looks; or beside the program, which sanitizers' loaders forget. Null if there
/// is none, as `why` says.
void* open_module(std::string& why) {
  const std::string name = "libcrossbow_mpi.so";
  if (void* const found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  why = dlerror();
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name;
  if (!std::filesystem::exists(beside, error)) return nullptr;
  if (void* const found = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  why = dlerror();
  return nullptr;
}

MpiCalls& expect_calls() {
  std::string why;
  MpiCalls* const calls = load_mpi_calls(why);
  if (!calls) {
    fail(
        "a launcher has started this process as one of several, and there is no MPI ({}): "
        "scripts/cluster installs it, and builds anew",
        why);
  }
  return *calls;
}

}  // namespace

MpiCalls* load_mpi_calls(std::string& why) {
  void* const module = open_module(why);
  if (!module) return nullptr;
  if (void* const found = dlsym(module, kMpiModule)) return reinterpret_cast<MpiModule*>(found)();
  why = dlerror();
  return nullptr;
}

int size_for_mpi(size_t bytes) {
  if (bytes > INT_MAX) fail("a message of {} bytes is more than MPI 3 can send at once", bytes);
  return static_cast<int>(bytes);
}

MpiCalls::Pieces::Pieces(std::vector<int> s) : sizes(std::move(s)), begins(sizes.size()) {
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (all > INT_MAX) fail("messages of {} bytes are more than MPI 3 can exchange at once", all);
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
}

MpiThread::MpiThread() : calls_(expect_calls()), thread_([this] { work(); }) {}

MpiThread::~MpiThread() {
  do_later([this] {
    if (joined_) calls_.finalise();
    over_ = true;
  });
  thread_.join();
}

void MpiThread::join() {
  do_now([this](MpiCalls& calls) {
    calls.initialise();
    joined_ = true;
  });
}

void MpiThread::do_later(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void MpiThread::do_now(const std::function<void(MpiCalls&)>& task) {
  bool done = false;
  std::exception_ptr error;
  do_later([&] {
    try {
      task(calls_);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    done = true;
    done_.notify_all();
  });
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return done; });
  if (error) std::rethrow_exception(error);
}

void MpiThread::abort(int code) {
  abort_code_.store(code, std::memory_order_relaxed);
  do_later([this, code] { calls_.abort(code); });
  for (;;) pause();
}

void MpiThread::wait_until(const std::function<bool()>& done, bool crowded) {
  const auto begin = Clock::now();
  while (!done()) {
    obey_abort();
    const auto now = Clock::now();
    const Clock::duration waited = now - begin;
    if (waited > kYielding || crowded) {
      std::this_thread::sleep_for(nap_after(waited, crowded));
    } else {
      std::this_thread::yield();
      crowded = Clock::now() - now > kShortestNap;
    }
  }
}

void MpiThread::rest(std::unique_lock<std::mutex>& lock, std::condition_variable& called,
                     Clock::time_point last_event, bool awaits) {
  obey_abort();
  const Clock::time_point now = Clock::now();
  const Clock::duration waited = now - last_event;
  if (awaits && waited < kYielding) {
    lock.unlock();
    return std::this_thread::yield();
  }
  const std::chrono::nanoseconds used = time_of_others();
  const bool others_compute = used - used_before_ > (now - rested_before_) / 2;
  rested_before_ = now;
  used_before_ = used;
  called.wait_for(lock, nap_after(waited, others_compute));
}

void MpiThread::obey_abort() {
  if (const int code = abort_code_.load(std::memory_order_relaxed); code >= 0) calls_.abort(code);
}

void MpiThread::work() {
  omp_set_num_threads(1);
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds, for short naps
  std::unique_lock lock(mutex_);
  while (!over_) {
    // While it has nothing to do, too: others would take it for dead after a second.
    while (!changed_.wait_for(lock, kSignOfLife, [this] { return !tasks_.empty(); })) {
      if (joined_ && calls_.survives()) calls_.give_sign_of_life();
    }
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace crossbow
