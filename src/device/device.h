// Where programs run: a device has memory, and queues that do work in the order in which it was
// given to them, but for what may be done aside.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/buffer.h"
#include "device/call.h"

namespace crossbow {

/// A point in a queue's work. Made by the device whose queues use it. Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks until the work before the last Queue::mark is done; returns at once if there was none.
  /// Throws Error if work of that queue has failed.
  virtual void finish() const = 0;
};

/// Calls that were kept instead of run.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Gives them to the queue that recorded them, once more.
  virtual void replay() const = 0;
};

/// Work in order. On host devices all is done when a call returns; on others calls return before,
/// and who needs the result waits: another queue by an event, the host by `finish`. One thread at a
/// time gives work to a queue.
class Queue {
 public:
  virtual ~Queue() = default;

  /// Either side may be memory of this device, of the host, or of another device of its kind. What
  /// is copied from or to must not be used otherwise until that is done.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// As copy, of few bytes of the host, which may change as soon as the call returns.
  virtual void write(void* to, const void* from, size_t bytes) = 0;
  /// As copy, of few bytes to memory that allocate_pinned has handed out.
  virtual void fetch(void* to, const void* from, size_t bytes) { copy(to, from, bytes); }
  virtual void zero(void* to, size_t bytes) = 0;

  /// What `give` gives begins after all that was given before, and may be done beside what follows:
  /// until a join, nothing may need it or change what it uses.
  virtual void aside(const std::function<void()>& give) { give(); }
  /// What follows begins when all that was given aside is done, but for the last `but` times.
  virtual void join(int /*but*/) {}
  static constexpr int kMostAside = 3;  // that a join may leave

  /// The event now stands for all work given to this queue so far.
  virtual void mark(Event& event) = 0;
  /// Work given from now on begins when what the event stands for now is done.
  virtual void wait(const Event& event) = 0;
  /// Blocks until all work is done. Throws Error if any of it has failed.
  virtual void finish() = 0;
  /// The same, where failures are of no interest any more.
  void drain() noexcept;

  /// Fixes a kernel's addresses, which are this device's. Each run of the call is this queue's
  /// work.
  virtual Call bind(const std::function<Call(Operands)>& kernel, Operands operands) = 0;
  /// Its calls are this queue's work. Valid as long as the queue.
  virtual const VectorMath& math(DType dtype) = 0;
  /// Keeps the work that `give` gives; null from queues that do it as quickly without.
  virtual std::unique_ptr<const Recording> record(const std::function<void()>& give) = 0;
};

/// Thread-safe. Outlives its buffers, queues and events.
class Device {
 public:
  virtual ~Device() = default;

  /// Whose kernels its queues run: the name in the kernels' registry.
  virtual std::string_view kernels() const = 0;
  /// The host can use its memory, and its queues work at the call, in the calling thread.
  virtual bool is_host() const = 0;
  /// Its queues do beside other work what they are given aside.
  virtual bool works_aside() const { return false; }
  /// So many programs of small batches keep it busy, whatever each of them does beside other work.
  virtual int crowd() const { return std::numeric_limits<int>::max(); }
  /// Elements of an exchange that are worth a task of their own, which any thread may give while
  /// others give more; kWhole where a queue shares out the work itself, and one thread gives all.
  virtual int64_t exchange_piece() const { return kWhole; }
  static constexpr int64_t kWhole = std::numeric_limits<int64_t>::max();
  bool exchanges_whole() const { return exchange_piece() == kWhole; }

  /// Host devices work in a team of threads of the one that gives the work; to others the number
  /// means nothing. `set_team` is called by a thread before it gives work; `expect_team` before it
  /// prepares kernels for so many threads, or starts threads that will give such work. Throws Error
  /// or UsageError where no such team is to be had.
  virtual void set_team(int /*threads*/) {}
  virtual void expect_team(int threads) { set_team(threads); }

  /// Of its memory, in MiB: what this process may use, and what of that nobody has taken yet.
  virtual double memory_mb() const = 0;
  virtual double free_memory_mb() const = 0;
  /// Contents undefined. Throws Error if there is no more memory.
  virtual Buffer allocate(size_t bytes) = 0;
  /// Of the host, zeroed, which this device's queues copy from and to without delay.
  virtual Buffer allocate_pinned(size_t bytes) { return Buffer(bytes); }
  /// Whether its kernels may read the host's memory at that address.
  virtual bool can_read(const void* /*host*/) const { return is_host(); }
  virtual std::unique_ptr<Queue> make_queue() = 0;
  /// What others wait for: its work begins before that of other queues, where a device can do so.
  virtual std::unique_ptr<Queue> make_urgent_queue() { return make_queue(); }
  virtual std::unique_ptr<Event> make_event() = 0;

  virtual Buffer allocate_zeroed(size_t bytes);
  /// These two return when it is done.
  void copy_now(void* to, const void* from, size_t bytes);
  void zero_now(void* to, size_t bytes);
};

/// What this machine has of a kind of device. A plain value, at first for one that computes by
/// itself: a learner there needs one thread, which only gives work.
struct DeviceKind {
  int devices = 1;                 // at most
  std::vector<std::string> names;  // of each, where they have names
  std::vector<std::string> types;  // of each, where they may differ: programs are made for a type
  std::string why_none;            // where there are none: a clause
  int threads = 1;                 // of a learner, at most
  /// Of devices that are groups of cores: one CPU of each core, neighbours in a row.
  std::vector<int> cpus;
  int cores = 1;  // of those, how many may be busy at a time
};

inline constexpr std::string_view kGpus = "cuda";  // known in builds without kernels for them, too

/// The i-th device of a kind: "cpu", "cuda", "ref"; of "cuda:2" the i-th after the first two. Each
/// call gives the same one. Throws Error if there is none.
Device& find_device(std::string_view kind, int index = 0);
/// The first `count` of a kind. Throws as find_device does.
std::vector<Device*> find_devices(std::string_view kind, int count);
/// "cuda:3" for the second of "cuda:2".
std::string device_name(std::string_view kind, int index);
bool is_device(std::string_view kind);
bool is_gpu(std::string_view kind);
/// Throws as find_device does.
DeviceKind device_kind(std::string_view kind);
/// Whether there is such a kind, and this machine has none of it.
bool is_missing(std::string_view kind);

/// `const RegisterDevice k{"cpu", describe, make};`; `make` is called once an index.
struct RegisterDevice {
  using Describe = DeviceKind (*)();
  using Make = std::unique_ptr<Device> (*)(int index);
  RegisterDevice(std::string_view kind, Describe describe, Make make);
};

}  // namespace crossbow
