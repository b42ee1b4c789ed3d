#include "data/range_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "data/memory.h"
#include "data/pipeline.h"
#include "data/source.h"
#include "support/error_text.h"

namespace crossbow::data {
namespace {

constexpr int64_t kRows = 50, kFeatures = 3;

std::shared_ptr<const Dataset> numbered_rows() {
  Rows rows;
  std::vector<int32_t> labels;
  for (int32_t r = 0; r < kRows; ++r) {
    rows.columns.push_back(r % 3);
    rows.values.push_back(static_cast<float>(r));
    rows.ends.push_back(r + 1);
    labels.push_back(r % 2);
  }
  Info info{.name = "rows", .image = {kFeatures}, .classes = 2};
  auto split = keep_in_memory(std::move(rows), std::move(labels));
  return std::make_shared<Dataset>(Dataset{info, split, split});
}

const RowOptions kShuffled{.shuffle = true, .augment = {}, .seed = 3};

/// Whatever the ranges: the rows are those of a pipeline's batches.
TEST(RangeSource, ServesTheRowsOfAPipeline) {
  const auto set = numbered_rows();
  Pipeline pipeline(*set, set->train, {.batch = 4, .shuffle = true, .seed = 3});
  const std::array<int64_t, 2> largest{7, 20};
  RangeSource source(*set, set->train, kShuffled, 4, largest);
  EXPECT_EQ(source.batches(), pipeline.batches());
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    pipeline.start(epoch);
    source.start(epoch, 0);
    std::vector<float> expected, found;
    for (int64_t b = 0; b < pipeline.batches(); ++b) {
      const Batch& batch = pipeline.acquire(b);
      expected.insert(expected.end(), batch.samples(), batch.samples() + batch.rows * kFeatures);
      pipeline.release(batch);
    }
    for (int64_t first = 0, rows = 1; first < kRows; first += rows, rows = rows % 7 + 1) {
      rows = std::min(rows, kRows - first);
      const Batch& batch = source.acquire_rows(first, rows, first % 2);
      EXPECT_EQ(batch.rows, rows);
      found.insert(found.end(), batch.samples(), batch.samples() + rows * kFeatures);
      source.release(batch);
    }
    EXPECT_EQ(found, expected);
  }
}

/// A holder's room is its own, however little another's range is.
TEST(RangeSource, HoldersDoNotTakeEachOthersRoom) {
  const auto set = numbered_rows();
  const std::array<int64_t, 2> largest{4, 40};
  RangeSource source(*set, set->train, kShuffled, 1, largest);
  source.start(0, 0);
  const Batch& small = source.acquire_rows(0, 2, 1);
  const Batch& other = source.acquire_rows(2, 4, 0);
  EXPECT_NE(small.samples(), other.samples());
  EXPECT_NE(testing::error_of([&] { source.acquire_rows(6, 1, 0); }), "");
  source.release(small);
  const Batch& large = source.acquire_rows(6, 40, 1);
  EXPECT_EQ(large.rows, 40);
  source.release(large);
  source.release(other);
}

}  // namespace
}  // namespace crossbow::data
