// Tensors by name in the format of the library safetensors, which PyTorch's users exchange weights
// in (huggingface.co/docs/safetensors): u64 length of a header, the header (JSON: for each tensor
// its type, its shape and where its values are; texts by name under `__metadata__`), the values,
// row-major and little-endian.
//
// Files that we write begin with a checksum. The header's first text is `crc32c`, eight hexadecimal
// digits: CRC-32C of the whole file, where zeros stand for these digits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/file.h"

namespace crossbow {

class SafeTensors {
 public:
  struct Tensor {
    std::string name, type;  // F32, BF16, I64 and so on
    std::vector<int64_t> shape;
    int64_t first = 0, bytes = 0;  // in the file

    int64_t elements() const;
  };

  /// Reads the header. Throws Error for what is not such a file, for values that overlap or leave
  /// holes, and for a header of more than 100 MB, the library's limit.
  explicit SafeTensors(FileBytes file);

  /// In the order of their values.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;  // null if there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Of F64, F32, F16 or BF16. Throws Error for other types, for values that are not finite, and if
  /// the file cannot be read.
  std::vector<float> values(const Tensor& tensor) const;

 private:
  FileBytes file_;
  std::map<std::string, std::string> metadata_;
  std::vector<Tensor> tensors_;
};

/// Whether the file begins as ours do.
bool has_checksum(const FileBytes& file);
/// Whether such a file is as it was written. Reads all of it, piece by piece.
bool is_intact(const FileBytes& file);

/// A tensor of floats to be written.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::function<void(int64_t first, std::span<float> values)> read;  // the values from there on
};
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// Puts a file into `sink`, tensor by tensor and piece by piece, of which a thread of its own
/// writes one while this one reads the next. What is no UTF-8 in names and
/// texts is replaced. Throws Error for more names than a header may hold.
void encode_safetensors(const std::vector<NamedTensor>& tensors, const Metadata& metadata,
                        const FileSink& sink);
/// Replaces what is at `path` once all is on disk. Throws Error if it cannot be written.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata);

}  // namespace crossbow
