// Where programs run: a device has memory, and queues that do work in the order in which it was
// given to them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
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
  virtual void zero(void* to, size_t bytes) = 0;

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
  /// Elements of an exchange that are worth a task of their own; all, where a queue shares out the
  /// work itself.
  virtual int64_t exchange_piece() const { return std::numeric_limits<int64_t>::max(); }

  /// What work of so many threads needs of the thread that gives it. Host devices do the work in
  /// that thread's OpenMP team; to others the number means nothing. A thread calls `expect_team`
  /// before it prepares kernels of that width, or starts threads that run them; `start_team` at its
  /// start, if such work is all that it does; `set_team` before it gives work if it may have done
  /// anything else meanwhile. The first throws Error, or UsageError that names a variable of the
  /// environment, where such a team is forbidden.
  virtual void set_team(int threads) = 0;
  virtual void expect_team(int threads) { set_team(threads); }
  virtual void start_team(int threads) { set_team(threads); }

  /// Of its memory, what this process may use, in MiB, and what of that nobody has taken yet.
  virtual double memory_mb() const = 0;
  virtual double free_memory_mb() const = 0;
  /// Contents undefined. Throws Error if there is no more memory.
  virtual Buffer allocate(size_t bytes) = 0;
  /// Of the host, zeroed, which this device's queues copy from and to without delay.
  virtual Buffer allocate_pinned(size_t bytes) { return Buffer(bytes); }
  virtual std::unique_ptr<Queue> make_queue() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  virtual Buffer allocate_zeroed(size_t bytes);
  /// These two return when it is done.
  void copy_now(void* to, const void* from, size_t bytes);
  void zero_now(void* to, size_t bytes);
};

/// What this machine has of a kind of device. A plain value.
struct DeviceKind {
  int devices = 1;  // at most
  /// The cores of which its devices are groups, by one CPU each, neighbours in a row, and how many
  /// of them may be busy at a time. None where devices compute by themselves: there a learner needs
  /// one thread, which only gives work.
  std::vector<int> cpus;
  int cores = 0;
};

/// The i-th device of a kind: "cpu", "ref". Each call gives the same one. Throws Error if there is
/// none.
Device& find_device(std::string_view kind, int index = 0);
bool is_device(std::string_view kind);
/// Throws as find_device does.
DeviceKind device_kind(std::string_view kind);

/// `const RegisterDevice k{"cpu", describe, make};`; `make` is called once an index.
struct RegisterDevice {
  using Describe = DeviceKind (*)();
  using Make = std::unique_ptr<Device> (*)(int index);
  RegisterDevice(std::string_view kind, Describe describe, Make make);
};

}  // namespace crossbow
