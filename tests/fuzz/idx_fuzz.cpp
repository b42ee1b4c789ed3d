#include <cstdlib>

#include "data/idx.h"
#include "fuzz/target.h"

FUZZ_TARGET(idx, bytes) {
  const crossbow::data::Idx idx = crossbow::data::parse_idx(bytes);
  if (idx.offset + static_cast<size_t>(idx.shape.elements()) != bytes.size()) std::abort();
}
