#include "comm/neighbour.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>

namespace crossbow {

ProcessId ProcessId::own() {
  static const ProcessId id = [] {
    struct stat space {};
    ::stat("/proc/self/ns/pid", &space);
    std::string system;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> system;
    return ProcessId{getpid(), space.st_ino, std::hash<std::string>()(system)};
  }();
  return id;
}

Neighbour::Neighbour(int process, std::string host, std::set<std::string> addresses, bool here,
                     const ProcessId& id)
    : process_(process),
      first_process_(process),
      host_(std::move(host)),
      addresses_(std::move(addresses)) {
  const ProcessId own = ProcessId::own();
  const bool seen = here && id.system == own.system && id.space == own.space;
  if (!seen || id.number == own.number) return;
  descriptor_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, id.number, 0)));
}

void Neighbour::end() {
  if (descriptor_.get() >= 0) {
    syscall(SYS_pidfd_send_signal, descriptor_.get(), SIGKILL, nullptr, 0);
  }
}

}  // namespace crossbow
