#include "comm/connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/file.h"

namespace crossbow {
namespace {

/// Two ends of a connection within this machine, one of which has the address.
struct Connected {
  explicit Connected(const char* address) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    inet_pton(AF_INET, address, &a.sin_addr);
    socklen_t size = sizeof a;
    auto* const any = reinterpret_cast<sockaddr*>(&a);
    const Descriptor listening(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(bind(listening.get(), any, size), 0);
    EXPECT_EQ(listen(listening.get(), 1), 0);
    getsockname(listening.get(), any, &size);
    to = Descriptor(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect(to.get(), any, size), 0);
    from = Descriptor(accept(listening.get(), nullptr, nullptr));
  }
  /// Whether what the other end says is heard.
  bool hears() const {
    char byte = 'x';
    send(from.get(), &byte, 1, MSG_NOSIGNAL);
    return recv(to.get(), &byte, 1, 0) == 1;
  }
  Descriptor to, from;
};

TEST(Connections, EndThoseToAnAddress) {
  const Connected lost("127.0.0.2"), kept("127.0.0.3");
  end_connections({"127.0.0.2", "10.1.2.3"});
  EXPECT_FALSE(lost.hears());
  EXPECT_TRUE(kept.hears());
}

TEST(Connections, AreNotOfTheMachineWithItself) {
  EXPECT_FALSE(own_addresses().contains("127.0.0.1"));
  EXPECT_FALSE(own_addresses().contains("::1"));
}

}  // namespace
}  // namespace crossbow
