#include "data/batch_memory.h"

#include <algorithm>
#include <new>

namespace crossbow::data {
namespace {

constexpr size_t kPage = 4096;

size_t round_to_page(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::shared_ptr<std::byte> allocate_pages(size_t bytes) {
  return {static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kPage))),
          [](std::byte* p) { ::operator delete(p, std::align_val_t(kPage)); }};
}

}  // namespace

size_t BatchMemory::bytes(const BatchFormat& format, int64_t rows) {
  size_t bytes = 0;
  for (const Field& field : format.fields) bytes += round_to_page(field.bytes(rows));
  return bytes;
}

BatchMemory::BatchMemory(const BatchFormat& format, int64_t rows, const AllocatePages& allocate)
    : memory_(allocate ? allocate(bytes(format, rows)) : allocate_pages(bytes(format, rows))) {
  std::byte* at = memory_.get();
  for (size_t i = 0; i < kFields; ++i) {
    fields_[i] = at;
    at += round_to_page(format.fields[i].bytes(rows));
  }
}

FieldAddresses BatchMemory::addresses() const {
  FieldAddresses addresses;
  std::copy(fields_.begin(), fields_.end(), addresses.begin());
  return addresses;
}

}  // namespace crossbow::data
