// Memory of a batch.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

#include "core/batch_format.h"

namespace crossbow::data {

/// Memory that begins at a page.
using AllocatePages = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

/// Room for so many rows of each field, which begins at a page. Not initialised.
class BatchMemory {
 public:
  /// Without `allocate`, of the heap.
  BatchMemory(const BatchFormat& format, int64_t rows, const AllocatePages& allocate = {});
  static size_t bytes(const BatchFormat& format, int64_t rows);

  const std::array<std::byte*, kFields>& fields() const { return fields_; }
  FieldAddresses addresses() const;

 private:
  std::array<std::byte*, kFields> fields_{};
  std::shared_ptr<std::byte> memory_;
};

}  // namespace crossbow::data
