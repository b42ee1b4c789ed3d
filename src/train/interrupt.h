// Ctrl-C as a request.
#pragma once

namespace crossbow {

/// While one lives, the first SIGINT or SIGTERM sets a flag and the second ends the process as
/// usual. At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  static bool requested();
};

}  // namespace crossbow
