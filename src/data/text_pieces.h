// A text file parsed on several threads, in pieces of whole lines.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/machine.h"
#include "data/parallel.h"
#include "data/text_reader.h"

namespace crossbow::data {

/// What threads share that read a file: each takes a piece and leaves what it holds.
template <typename Rows>
class TextPieces {
 public:
  /// Appends what whole lines hold; the first line has the number `first_line`. Throws Error,
  /// "line N: reason".
  using Parse = void (*)(std::string_view text, int64_t first_line, Rows& rows);

  TextPieces(const Path& path, Parse parse) : path_(path), parse_(parse), reader_(path) {}

  /// In the file's order. Throws the first error of the file, with its name.
  std::vector<Rows> read(const OpenOptions& options) {
    const std::string what = "reading " + path_.filename().string();
    const auto caller = std::this_thread::get_id();
    const int64_t threads = options.threads > 0 ? options.threads : usable_cpus();
    OpenOptions quiet = options;
    quiet.progress = nullptr;
    parallel_for(threads, quiet, what, [&](int64_t) {
      TextReader::Piece piece;
      while (step(piece)) {
        if (!options.progress || std::this_thread::get_id() != caller) continue;
        try {
          options.progress(what, bytes_read(), reader_.bytes());
        } catch (...) {
          end_with(0);
          throw;
        }
      }
    });
    if (error_) std::rethrow_exception(error_);
    return std::move(pieces_);
  }

 private:
  /// False at the end.
  bool step(TextReader::Piece& piece) {
    std::unique_lock lock(mutex_);
    const size_t place = pieces_.size();
    try {
      if (error_ || !reader_.next(piece)) return false;
      pieces_.emplace_back();
      lock.unlock();
      Rows rows;
      naming_file(path_, [&] { parse_(piece.text, piece.first_line, rows); });
      lock.lock();
      pieces_[place] = std::move(rows);
    } catch (...) {
      if (lock.owns_lock()) lock.unlock();
      end_with(place);
    }
    return true;
  }

  /// The exception that is being handled; of several, that of the first piece.
  void end_with(size_t place) {
    const std::lock_guard lock(mutex_);
    if (error_ && place >= error_at_) return;
    error_ = std::current_exception();
    error_at_ = place;
  }

  int64_t bytes_read() {
    const std::lock_guard lock(mutex_);
    return reader_.bytes_read();
  }

  const Path& path_;
  const Parse parse_;
  std::mutex mutex_;  // guards all below
  TextReader reader_;
  std::vector<Rows> pieces_;
  std::exception_ptr error_;
  size_t error_at_ = 0;
};

/// Calls f(number, begin, end) for each line of `text`, which begins with the line `first_line`;
/// what f finds wrong is reported with the line's number.
template <typename F>
void for_each_line(std::string_view text, int64_t first_line, const F& f) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int64_t line = first_line; at < end; ++line) {
    const auto left = static_cast<size_t>(end - at);
    const auto* const found = static_cast<const char*>(std::memchr(at, '\n', left));
    const char* const line_end = found ? found : end;
    try {
      f(line, at, line_end);
    } catch (const Error& e) {
      fail("line {}: {}", line, e.what());
    }
    at = line_end + 1;
  }
}

}  // namespace crossbow::data
