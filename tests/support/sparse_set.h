// A small data set of sparse rows.
#pragma once

#include <memory>

#include "core/rng.h"
#include "data/source.h"

namespace crossbow::testing {

inline constexpr int64_t kSparseFeatures = 200, kSparseClasses = 3;

/// Of up to nine numbers in a row, in which each class has favourite features; every seventh row is
/// empty.
inline std::shared_ptr<const data::Split> sparse_split(int64_t rows, uint64_t seed) {
  Rng rng(seed, Purpose::synthetic);
  data::Rows all;
  std::vector<int32_t> classes;
  for (int64_t r = 0; r < rows; ++r) {
    const auto label = static_cast<int32_t>(rng.below(kSparseClasses));
    classes.push_back(label);
    for (int32_t c = 0, left = r % 7 == 3 ? 0 : 9; c < kSparseFeatures && left > 0; ++c) {
      if (rng.uniform() > (c % kSparseClasses == label ? 0.08f : 0.01f)) continue;
      all.columns.push_back(c);
      all.values.push_back(rng.uniform(0.2f, 2.0f));
      --left;
    }
    all.ends.push_back(static_cast<int64_t>(all.columns.size()));
  }
  return data::keep_in_memory(std::move(all), std::move(classes));
}

/// With `rows` to train on; it can be told to options as a program's own.
inline std::shared_ptr<const data::Dataset> sparse_set(int64_t rows) {
  auto train = sparse_split(rows, 1), test = sparse_split(70, 2);
  data::Info info{.name = "memory", .image = {kSparseFeatures}, .classes = kSparseClasses};
  info.class_names = data::numbered_classes(kSparseClasses);
  info.room = data::room_of(*train, *test, kSparseFeatures);
  return std::make_shared<const data::Dataset>(data::Dataset{std::move(info), train, test});
}

}  // namespace crossbow::testing
