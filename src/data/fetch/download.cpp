#include "data/fetch/download.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/fetch/sha256.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;
using End = Transfer::End;

/// A file that grows at its end; it vanishes if nothing has come.
class PartFile {
 public:
  explicit PartFile(const fs::path& path)
      : path_(path),
        file_(::open(path.c_str(),
                     O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666)) {
    struct stat status {};
    if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) {
      fail("cannot write {} ({}): choose a folder you may write in", path_.string(),
           std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) fail("{} is no regular file: remove it", path_.string());
    size_ = status.st_size;
  }

  ~PartFile() {
    if (size_ == 0) ::unlink(path_.c_str());
  }
  PartFile(const PartFile&) = delete;

  int64_t size() const { return size_; }

  void append(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse();
      size_ += n;
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }
  void empty() {
    if (::ftruncate(file_.get(), 0) != 0) refuse();
    size_ = 0;
  }
  void put_on_disk() {
    if (::fsync(file_.get()) != 0) refuse();
  }
  std::string sha256() const { return data::sha256(bytes_of_file(path_)); }

 private:
  [[noreturn]] void refuse() const {
    fail("cannot write {} ({}): make room, then fetch again, which goes on from there",
         path_.string(), std::strerror(errno));
  }

  const fs::path path_;
  const Descriptor file_;
  int64_t size_ = 0;
};

/// A file that has not as many bytes as it should.
struct OtherLength {
  std::string reason;
};

class Arrival final : public Sink {
 public:
  Arrival(const Digest& digest, const fs::path& part, const Patience& patience,
          const FetchProgress& progress)
      : digest_(digest),
        patience_(patience),
        progress_(progress),
        name_(part.stem().string()),
        part_(part) {}

  /// From what is there already.
  bool is_complete() {
    const int64_t size = part_.size();
    if (size == digest_.bytes && part_.sha256() == digest_.sha256) return true;
    if (size >= digest_.bytes) part_.empty();
    return false;
  }
  /// Why `url` has not given what is missing; empty if it has.
  std::string ask(const std::string& url);
  void put_on_disk() { part_.put_on_disk(); }
  int64_t received() const { return received_; }

 private:
  void begin(int64_t offset, int64_t bytes) override {
    if (offset > 0) return;
    if (bytes > digest_.bytes) throw too_long();
    if (bytes >= 0 && bytes < digest_.bytes) throw too_short(bytes);
    part_.empty();
    all_from_here_ = true;
  }
  void take(std::span<const uint8_t> bytes) override {
    if (part_.size() + std::ssize(bytes) > digest_.bytes) {
      part_.empty();
      throw too_long();
    }
    part_.append(bytes);
    received_ += std::ssize(bytes);
  }
  void tick() override { progress_(name_, part_.size(), digest_.bytes); }
  OtherLength too_long() const {
    return {fmt::format("it is longer than {} bytes", grouped(digest_.bytes))};
  }
  OtherLength too_short(int64_t bytes) const {
    return {fmt::format("it has {} bytes instead of {}", grouped(bytes), grouped(digest_.bytes))};
  }
  Transfer transfer_rest(const std::string& url);

  const Digest& digest_;
  const Patience& patience_;
  const FetchProgress& progress_;
  const std::string name_;
  PartFile part_;
  bool all_from_here_ = false;  // nothing in `part_` is of an earlier run or another mirror
  int64_t received_ = 0;
};

Transfer Arrival::transfer_rest(const std::string& url) {
  try {
    return transfer(url, part_.size(), patience_, *this);
  } catch (const OtherLength& e) {
    return {End::failed, e.reason};
  }
}

std::string Arrival::ask(const std::string& url) {
  constexpr int kAttempts = 10;  // while bytes come
  all_from_here_ = false;
  std::string reason;
  for (int i = 0; i < kAttempts; ++i) {
    const int64_t before = part_.size();
    const Transfer ended = transfer_rest(url);
    const int64_t size = part_.size();
    reason = ended.reason;
    if (size == digest_.bytes) {
      const std::string sha256 = part_.sha256();
      if (sha256 == digest_.sha256) return "";
      part_.empty();
      reason = fmt::format("its SHA-256 is {} instead of {}", sha256, digest_.sha256);
      if (all_from_here_) return reason;
    } else if (ended.end == End::no_range && before > 0) {
      part_.empty();
    } else if (ended.end == End::whole) {
      part_.empty();
      return too_short(size).reason;
    } else if (ended.end != End::cut || size <= before) {
      return reason;
    }
  }
  return reason;
}

}  // namespace

int64_t download(const std::vector<std::string>& urls, const Digest& digest, const fs::path& part,
                 const Patience& patience, const FetchProgress& progress) {
  Arrival arrival(digest, part, patience, progress);
  std::vector<std::string> reasons;
  bool complete = arrival.is_complete();
  for (size_t i = 0; i < urls.size() && !complete; ++i) {
    const std::string reason = arrival.ask(urls[i]);
    complete = reason.empty();
    reasons.push_back(fmt::format("{} ({})", urls[i], reason));
  }
  if (!complete) {
    fail("cannot fetch {}: try again later, or from another mirror", fmt::join(reasons, " nor "));
  }
  arrival.put_on_disk();
  return arrival.received();
}

}  // namespace crossbow::data
