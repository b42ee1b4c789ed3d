// Memory of a batch.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "core/batch_format.h"

namespace crossbow::data {

/// Room for so many rows of each field, which begins at a page. Not initialised.
class BatchMemory {
 public:
  BatchMemory(const BatchFormat& format, int64_t rows);
  static size_t bytes(const BatchFormat& format, int64_t rows);

  const std::array<std::byte*, kFields>& fields() const { return fields_; }
  FieldAddresses addresses() const;

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::array<std::byte*, kFields> fields_{};
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace crossbow::data
