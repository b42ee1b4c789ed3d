// Long text files, packed or not, as pieces of whole lines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/source.h"

namespace crossbow::data {

/// Reads a plain, gzip or bzip2 file (its first bytes tell which) from the beginning to the end.
/// One thread at a time. Errors name the file.
class TextReader {
 public:
  static constexpr size_t kLongestLine = size_t{16} << 20;

  /// Throws Error if the file cannot be opened.
  explicit TextReader(const Path& path);
  ~TextReader();
  TextReader(const TextReader&) = delete;

  struct Piece {
    std::string text;        // whole lines; the file's last one may lack its line break
    int64_t first_line = 1;  // the number of its first line in the file
  };
  /// Fills `piece`, whose memory is used again, with some megabytes. False at the end of the file.
  /// Throws Error if the file is damaged or cut short, or for a line longer than kLongestLine.
  bool next(Piece& piece);

  /// Of the file as it lies on disk: how much has been read, and all of it.
  int64_t bytes_read() const;
  int64_t bytes() const { return bytes_; }

  class Stream;  // bytes, unpacked

 private:
  const Path path_;
  const int64_t bytes_;
  std::unique_ptr<Stream> stream_;
  std::string rest_;  // the beginning of a line
  int64_t next_line_ = 1;
};

}  // namespace crossbow::data
