// Ctrl-C as a request.
#pragma once

#include <signal.h>

#include <cstddef>
#include <vector>

namespace crossbow {

/// While one lives, the first SIGINT, SIGTERM, SIGUSR1 (which job schedulers send before the time
/// is up, and mpirun hands on) or SIGHUP sets a flag. One of the first three that comes 0.2 s or
/// more after that ends the process as usual. Others do not: `timeout` sends its signal to the
/// process and then to the process group, and a terminal that closes sends SIGHUP more than once. A
/// SIGHUP that the process was told to ignore (nohup) stays ignored. At most one at a time, made by
/// the process's first thread, which is the one that the system interrupts.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  static bool requested() { return signal() != 0; }
  /// The first of the signals that came while the last guard lived; 0 if none did.
  static int signal();

 private:
  std::vector<std::byte> stack_;  // of the handler
  stack_t stack_before_ = {};
};

}  // namespace crossbow
