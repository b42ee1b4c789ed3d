// Public data sets that can be fetched: their files, where these are, and what they must hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crossbow::data {

struct Digest {
  int64_t bytes = 0;
  std::string sha256;  // hexadecimal, in small letters
};

/// A file of a set, which may lie in the set's folder gzipped.
struct SetFile {
  std::string name;
  std::optional<Digest> digest;  // of what it holds; absent: nobody misses the file
};

/// A file that mirrors have.
struct Download {
  std::string file;
  Digest digest;
  std::vector<SetFile> gives;
  std::string archive_folder =
      {};  // within a .tar.gz, of what it gives; empty: it is kept as it is
};

struct Published {
  std::string name;
  std::vector<std::string> mirrors;  // URLs of folders, in the order in which they are tried
  std::vector<Download> downloads;
};

const std::vector<Published>& published_sets();
/// Throws UsageError for a name that is not among them.
const Published& published_set(std::string_view name);

}  // namespace crossbow::data
