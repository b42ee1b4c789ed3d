// What the data room's tests share: folders that vanish, and small files of each format.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/dataset.h"
#include "support/paths.h"

namespace crossbow::data {

using FileBytes = std::vector<uint8_t>;

inline const uint8_t* pixels_of(const Split& split, int64_t i) {
  return std::get<const uint8_t*>(split.sample(i, nullptr));
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "crossbow-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Sets an environment variable, or unsets it given null, until the end of the scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ~ScopedVariable() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) { value ? setenv(name_, value, 1) : unsetenv(name_); }

  const char* name_;
  std::optional<std::string> old_;
};

inline void write_file(const std::filesystem::path& path, const FileBytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline FileBytes gzip(const FileBytes& bytes) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  FileBytes out(deflateBound(&z, bytes.size()));
  z.next_in = const_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

/// An IDX file of bytes with the given sizes.
inline FileBytes idx_file(const std::vector<uint32_t>& sizes, const FileBytes& elements) {
  FileBytes file{0, 0, 8, static_cast<uint8_t>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8)
      file.push_back(static_cast<uint8_t>(size >> shift));
  }
  file.insert(file.end(), elements.begin(), elements.end());
  return file;
}

/// The folder of a real data set, or an empty path if this machine does not have it.
inline std::filesystem::path real_data(const std::string& name) {
  const char* root = std::getenv("CROSSBOW_DATA");
  const std::filesystem::path path =
      std::filesystem::path(root ? std::string(root)
                                 : test_data_folder() + "/../../../shared/data") /
      name;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

/// What `body` says when it fails; an empty string if it does not.
template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace crossbow::data

/// `body` must throw crossbow::Error with a text that contains `part`.
#define EXPECT_ERROR(body, part)                                 \
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, std::string(part), \
                      ::crossbow::data::error_of([&] { (void)(body); }))
