#include "data/text_reader.h"

#include <bzlib.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <span>

#include "core/error.h"
#include "core/file.h"

namespace crossbow::data {
namespace {

constexpr size_t kPiece = size_t{4} << 20;

/// The file as it lies on disk.
class File {
 public:
  File(const Path& path, Descriptor file) : path_(path), file_(std::move(file)) {}

  /// 0 at the end.
  size_t read(void* to, size_t bytes) {
    for (;;) {
      const ssize_t n = ::read(file_.get(), to, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("cannot read {} ({})", path_.string(), std::strerror(errno));
      bytes_read_ += n;
      return static_cast<size_t>(n);
    }
  }
  int64_t bytes_read() const { return bytes_read_; }

  [[noreturn]] void cut_short() const { fail("{} is cut short: get it again", path_.string()); }
  [[noreturn]] void damaged() const { fail("{} is damaged: get it again", path_.string()); }

 private:
  Path path_;
  Descriptor file_;
  int64_t bytes_read_ = 0;
};

/// What the streams of zlib and of libbz2 have in common.
template <typename Z>
class Unpacker {
 public:
  Unpacker() = default;
  Unpacker(const Unpacker&) = delete;

  size_t input_left() const { return z_.avail_in; }
  bool within_stream() const { return within_; }
  void set_input(std::span<char> bytes) {
    z_.next_in = reinterpret_cast<decltype(z_.next_in)>(bytes.data());
    z_.avail_in = static_cast<unsigned>(bytes.size());
  }

 protected:
  /// Bytes that `step` wrote there; nothing if it says that the data are damaged.
  template <typename StepFunction>
  std::optional<size_t> write(char* to, size_t room, StepFunction step) {
    const auto most = static_cast<unsigned>(std::min<size_t>(room, 1 << 30));
    z_.next_out = reinterpret_cast<decltype(z_.next_out)>(to);
    z_.avail_out = most;
    if (!step()) return {};
    return most - z_.avail_out;
  }

  Z z_{};
  bool within_ = true;  // a stream that has not ended
};

class Gzip : public Unpacker<z_stream> {
 public:
  Gzip() {
    if (inflateInit2(&z_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() { inflateEnd(&z_); }

  std::optional<size_t> unpack(char* to, size_t room) {
    if (!within_) inflateReset(&z_);
    return write(to, room, [&] {
      const int result = inflate(&z_, Z_NO_FLUSH);
      within_ = result != Z_STREAM_END;
      return !within_ || result == Z_OK || result == Z_BUF_ERROR;
    });
  }
};

class Bzip2 : public Unpacker<bz_stream> {
 public:
  Bzip2() { begin(); }
  ~Bzip2() { BZ2_bzDecompressEnd(&z_); }

  std::optional<size_t> unpack(char* to, size_t room) {
    if (!within_) begin_again();
    return write(to, room, [&] {
      const int result = BZ2_bzDecompress(&z_);
      within_ = result != BZ_STREAM_END;
      return !within_ || result == BZ_OK;
    });
  }

 private:
  void begin() {
    if (BZ2_bzDecompressInit(&z_, 0, 0) != BZ_OK) throw std::bad_alloc();
  }
  void begin_again() {
    const bz_stream before = z_;
    BZ2_bzDecompressEnd(&z_);
    z_ = {};
    begin();
    z_.next_in = before.next_in;
    z_.avail_in = before.avail_in;
  }
};

}  // namespace

class TextReader::Stream {
 public:
  virtual ~Stream() = default;
  /// As many bytes as asked for, or fewer at the end.
  virtual size_t read(char* to, size_t bytes) = 0;
  virtual int64_t bytes_read() const = 0;
};

namespace {

class Plain final : public TextReader::Stream {
 public:
  explicit Plain(File file) : file_(std::move(file)) {}
  size_t read(char* to, size_t bytes) override {
    size_t done = 0;
    while (done < bytes) {
      const size_t n = file_.read(to + done, bytes - done);
      if (n == 0) break;
      done += n;
    }
    return done;
  }
  int64_t bytes_read() const override { return file_.bytes_read(); }

 private:
  File file_;
};

/// A row of streams, each of which ends by itself.
template <typename Unpacker>
class Packed final : public TextReader::Stream {
 public:
  explicit Packed(File file) : file_(std::move(file)) {}
  size_t read(char* to, size_t bytes) override {
    size_t done = 0;
    while (done < bytes) {
      const bool begins = !unpacker_.within_stream();
      if (unpacker_.input_left() == 0 && (begins || !holds_more_)) {
        const size_t n = file_.read(packed_.data(), packed_.size());
        if (n == 0 && !begins) file_.cut_short();
        if (n == 0) break;
        unpacker_.set_input({packed_.data(), n});
      }
      const auto written = unpacker_.unpack(to + done, bytes - done);
      if (!written) file_.damaged();
      done += *written;
      holds_more_ = done == bytes;
    }
    return done;
  }
  int64_t bytes_read() const override { return file_.bytes_read(); }

 private:
  File file_;
  Unpacker unpacker_;
  bool holds_more_ = false;  // there may be output that had no room
  std::array<char, 1 << 16> packed_;
};

std::unique_ptr<TextReader::Stream> open_stream(const Path& path) {
  Descriptor file = open_regular_file(path);
  std::array<char, 3> first{};
  const ssize_t n = pread(file.get(), first.data(), first.size(), 0);
  const std::string_view begins(first.data(), n > 0 ? static_cast<size_t>(n) : 0);
  File bytes(path, std::move(file));
  if (begins.starts_with("\x1f\x8b")) return std::make_unique<Packed<Gzip>>(std::move(bytes));
  if (begins == "BZh") return std::make_unique<Packed<Bzip2>>(std::move(bytes));
  return std::make_unique<Plain>(std::move(bytes));
}

int64_t size_of_file(const Path& path) {
  std::error_code ignored;
  const uintmax_t bytes = std::filesystem::file_size(path, ignored);
  return ignored ? 0 : static_cast<int64_t>(bytes);
}

}  // namespace

TextReader::TextReader(const Path& path)
    : path_(path), bytes_(size_of_file(path)), stream_(open_stream(path)) {}

TextReader::~TextReader() = default;

int64_t TextReader::bytes_read() const {
  return stream_->bytes_read();
}

bool TextReader::next(Piece& piece) {
  std::string& text = piece.text;
  piece.first_line = next_line_;
  text = rest_;
  rest_.clear();
  for (size_t whole = 0; whole == 0;) {
    const size_t before = text.size();
    text.resize(std::max(kPiece, 2 * before));
    const size_t wanted = text.size() - before;
    const size_t got = stream_->read(text.data() + before, wanted);
    text.resize(before + got);
    if (got < wanted) break;  // the file's end
    whole = text.rfind('\n') + 1;
    if (whole == 0 && text.size() > kLongestLine) break;
    if (whole == 0) continue;
    rest_ = text.substr(whole);
    text.resize(whole);
  }
  const size_t line = text.find('\n');
  if (std::min(line, text.size()) > kLongestLine) {
    fail("{}, line {}: it is longer than {} MiB", path_.string(), next_line_, kLongestLine >> 20);
  }
  next_line_ += std::count(text.begin(), text.end(), '\n');
  return !text.empty();
}

}  // namespace crossbow::data
