#include <cmath>
#include <cstdlib>

#include "data/libsvm.h"
#include "fuzz/target.h"

FUZZ_TARGET(libsvm, bytes) {
  crossbow::data::LibsvmRows rows;
  const std::string text(bytes.begin(), bytes.end());
  crossbow::data::parse_libsvm(text, 1, rows);
  const auto values = static_cast<int64_t>(rows.values.size());
  if (rows.indices.size() != rows.values.size()) std::abort();
  if (rows.label_ends.size() != rows.value_ends.size()) std::abort();
  if (rows.size() > 0 && rows.value_ends.back() != values) std::abort();
  int64_t begin = 0;
  for (const int64_t end : rows.value_ends) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (rows.indices[i] < 0 || !std::isfinite(rows.values[i])) std::abort();
      if (i > static_cast<size_t>(begin) && rows.indices[i] <= rows.indices[i - 1]) std::abort();
    }
    begin = end;
  }
}
