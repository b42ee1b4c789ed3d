// What runs left behind, to be compared.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "train/checkpoint.h"

namespace crossbow::testing {

inline Checkpoint load(const std::string& run) {
  return load_checkpoint(run, [](std::string_view) {});
}

/// Weights, slots, running statistics and all else that is kept, bit for bit.
inline void expect_same_bits(const Checkpoint& a, const Checkpoint& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const auto x = a.tensors[i].values(), y = b.tensors[i].values();
    ASSERT_EQ(x.size(), y.size());
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0) << a.tensors[i].name;
  }
}

/// The values of learner `index`'s tensors in one list, or of the central model's.
inline std::vector<float> values_of(const Checkpoint& checkpoint, Checkpoint::Role role,
                                    int64_t index) {
  std::vector<float> values;
  for (const auto& t : checkpoint.tensors) {
    if (t.role != role || t.index != index) continue;
    const std::vector<float> own = t.values();
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

}  // namespace crossbow::testing
