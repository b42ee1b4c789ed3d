#include "support/hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace crossbow::testing {
namespace {

bool succeeds(const std::string& commands) {
  return std::system(("exec 2>/dev/null; set -e; " + commands).c_str()) == 0;
}

constexpr const char* kAgent = R"(#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare -u sh -c 'echo "$0" >/proc/sys/kernel/hostname && exec sh -c "$1"' "$host" "$*"
)";

}  // namespace

Hosts::Hosts(int count, const std::string& folder)
    : count_(count), prefix_(fmt::format("cb{}", getpid())), agent_(folder + "/agent") {
  std::ofstream(agent_) << kAgent;
  std::filesystem::permissions(agent_, std::filesystem::perms::owner_all);
  // The switches are in a namespace of their own: all goes with it.
  std::string commands = fmt::format("ip netns add {0}; ", prefix_);
  for (const char* network : {"r", "d"}) {
    commands +=
        fmt::format("ip -n {0} link add name {1} type bridge; ip -n {0} link set dev {1} up; ",
                    prefix_, network);
  }
  for (int h = 0; h < count; ++h) {
    commands += fmt::format("ip netns add {0}; ip -n {0} link set dev lo up; ", name(h));
    for (const auto& [network, number] : {std::pair("d", 1), {"r", 2}}) {
      commands += fmt::format(
          "ip -n {0} link add name {1}{2} type veth peer name {1} netns {3}; "
          "ip -n {0} link set dev {1}{2} master {1} up; ip -n {3} link set dev {1} up; "
          "ip -n {3} addr add 10.77.{4}.{5}/24 dev {1}; ",
          prefix_, network, h, name(h), number, h + 1);
    }
  }
  if (!succeeds(commands + agent_ + ' ' + name(0) + " true")) {
    remove();
    fail("no network namespaces are to be had here: they need root, and ip of iproute2");
  }
}

Hosts::~Hosts() {
  remove();
}

void Hosts::remove() const {
  for (int h = 0; h < count_; ++h) succeeds("ip netns del " + name(h));
  succeeds("ip netns del " + prefix_);
}

std::string Hosts::name(int host) const {
  return fmt::format("{}-{}", prefix_, host);
}

void Hosts::pull(const std::string& network, int host, bool out) const {
  if (!succeeds(fmt::format("ip -n {} link set dev {}{} {}", prefix_, network, host,
                            out ? "down" : "up"))) {
    fail("the cable of {} is not to be pulled", name(host));
  }
}

}  // namespace crossbow::testing
