// One request to a server of HTTP or HTTPS, by libcurl.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace crossbow::data {

/// Where the bytes of an answer go. What its calls throw ends the transfer, which throws the same.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Once, before the first bytes: which of the file's they are, and how many come; less than 0 if
  /// the server does not say.
  virtual void begin(int64_t offset, int64_t bytes) = 0;
  virtual void take(std::span<const uint8_t> bytes) = 0;
  /// Now and then, at least once a second, also while nothing comes.
  virtual void tick() = 0;
};

struct Patience {
  std::chrono::seconds connect{15};
  std::chrono::seconds stall{30};  // below 1000 bytes a second
};

/// How a transfer has ended.
struct Transfer {
  enum class End {
    whole,     // the answer is as long as the server has said
    cut,       // more may come if the server is asked again
    no_range,  // there is nothing from that byte on
    failed
  };
  End end = End::failed;
  std::string reason = {};  // where it is not whole
};

/// Asks for the bytes of `url` from `from` on. The answer begins there, or at the first byte, as a
/// server does that knows no ranges. Follows redirections, but none from HTTPS to HTTP.
Transfer transfer(const std::string& url, int64_t from, const Patience& patience, Sink& sink);

}  // namespace crossbow::data
