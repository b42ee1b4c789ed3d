#include "comm/neighbour.h"

#include <csignal>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace crossbow {

ProcessId ProcessId::own() {
  struct stat space {};
  ::stat("/proc/self/ns/pid", &space);
  return {getpid(), space.st_ino};
}

Neighbour::Neighbour(std::string host, bool here, const ProcessId& process)
    : host_(std::move(host)) {
  const ProcessId own = ProcessId::own();
  if (!here || process.space != own.space || process.number == own.number) return;
  process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process.number, 0)));
}

void Neighbour::end() {
  if (process_.get() >= 0) syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
}

}  // namespace crossbow
