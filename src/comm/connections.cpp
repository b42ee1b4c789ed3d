#include "comm/connections.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace crossbow {
namespace {

/// Empty if it is of no network.
std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* number = nullptr;
  if (address && address->sa_family == AF_INET) {
    number = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address && address->sa_family == AF_INET6) {
    number = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  if (number) inet_ntop(address->sa_family, number, text.data(), text.size());
  return text.data();
}

}  // namespace

std::set<std::string> own_addresses() {
  std::set<std::string> all;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return all;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  for (const ifaddrs* a = first; a; a = a->ifa_next) {
    const std::string text = text_of(a->ifa_addr);
    if (!text.empty() && !(a->ifa_flags & IFF_LOOPBACK)) all.insert(text);
  }
  return all;
}

void end_connections(const std::set<std::string>& addresses) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    auto* const address = reinterpret_cast<sockaddr*>(&peer);
    if (getpeername(fd, address, &size) == 0 && addresses.contains(text_of(address))) {
      shutdown(fd, SHUT_RDWR);  // its owner closes it
    }
  }
}

}  // namespace crossbow
