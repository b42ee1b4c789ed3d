// This process's connections over networks, by the addresses of machines.
#pragma once

#include <set>
#include <string>

namespace crossbow {

/// Of this machine, but for those by which it talks to itself.
std::set<std::string> own_addresses();

/// Ends those to the addresses: nothing that comes by them later is heard.
void end_connections(const std::set<std::string>& addresses);

}  // namespace crossbow
