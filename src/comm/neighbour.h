// The process of a rank, which may be on this machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

#include "core/file.h"

namespace crossbow {

/// What a process tells the others of itself. A plain value.
struct ProcessId {
  pid_t number;
  ino_t space;      // of process numbers, of which a machine may have several
  uint64_t system;  // that runs: machines may share a name
  static ProcessId own();
};

/// Move-only.
class Neighbour {
 public:
  /// `process` is its number in MPI. The addresses are its machine's.
  Neighbour(int process, std::string host, std::set<std::string> addresses, bool here,
            const ProcessId& id);

  int process() const { return process_; }
  void set_process(int process) { process_ = process; }
  int first_process() const { return first_process_; }
  const std::string& host() const { return host_; }
  const std::set<std::string>& addresses() const { return addresses_; }
  /// Whether `end` ends it for sure.
  bool is_within_reach() const { return descriptor_.get() >= 0; }
  /// Kills it, if it is on this machine: a rank that the others have given up, as it did not
  /// answer, is not to go on when it wakes, and would keep its launcher waiting.
  void end();

 private:
  int process_;
  int first_process_;
  std::string host_;
  std::set<std::string> addresses_;
  Descriptor descriptor_;  // of one on this machine; another process never has it
};

}  // namespace crossbow
