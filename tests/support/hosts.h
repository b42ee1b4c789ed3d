// Machines of a test's own on this one: network namespaces, with two networks between them.
#pragma once

#include <string>

namespace crossbow::testing {

/// Root may have them. A launcher of MPI starts processes there by `agent`, in place of ssh.
class Hosts {
 public:
  /// So many, whose names and addresses are those of `name` and `kRanks`. Throws Error if that is
  /// not to be.
  Hosts(int count, const std::string& folder);
  ~Hosts();
  Hosts(const Hosts&) = delete;

  std::string name(int host) const;
  /// A program: `agent HOST COMMAND...`.
  const std::string& agent() const { return agent_; }
  /// Those of the networks for a launcher's daemons and for ranks.
  static constexpr const char* kDaemons = "10.77.1.0/24";
  static constexpr const char* kRanks = "10.77.2.0/24";

  /// A host's cable of the network of ranks is pulled out, or plugged in again.
  void cut_off(int host, bool cut = true) const { pull("r", host, cut); }
  /// That of the daemons.
  void cut_off_daemon(int host, bool cut = true) const { pull("d", host, cut); }

 private:
  void remove() const;
  void pull(const std::string& network, int host, bool out) const;

  const int count_;
  const std::string prefix_, agent_;
};

}  // namespace crossbow::testing
