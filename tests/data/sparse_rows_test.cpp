// Batches of sparse rows hold what batches of all numbers hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "data/pipeline.h"
#include "support/sparse_set.h"

namespace crossbow::data {
namespace {

using testing::kSparseFeatures;
using testing::sparse_set;

/// All numbers of a batch's rows from `first` on.
std::vector<float> numbers_of(const FieldAddresses& fields, int64_t rows, int64_t first = 0) {
  const auto* const values = static_cast<const float*>(fields[kValues]);
  const auto* const columns = static_cast<const int32_t*>(fields[kColumns]);
  const auto* const extents = static_cast<const int32_t*>(fields[kExtents]);
  std::vector<float> numbers(static_cast<size_t>(rows * kSparseFeatures));
  for (int64_t r = 0; r < rows; ++r) {
    for (int32_t i = extents[2 * r]; i < extents[2 * r + 1]; ++i) {
      const int32_t at = i - extents[0];
      numbers[static_cast<size_t>(r * kSparseFeatures + columns[at])] = values[at];
    }
  }
  numbers.erase(numbers.begin(), numbers.begin() + first * kSparseFeatures);
  return numbers;
}

TEST(SparseRows, AreServedAsAllNumbersAre) {
  const auto set = sparse_set(100);
  ASSERT_TRUE(set->info.room);
  const Dataset dense = set->dense();
  const PipelineOptions options{.batch = 8, .shuffle = true, .seed = 3};
  Pipeline sparse_batches(*set, set->train, options), batches(dense, dense.train, options);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    sparse_batches.start(epoch);
    batches.start(epoch);
    for (int64_t b = 0; b < batches.batches(); ++b) {
      const Batch &sparse = sparse_batches.acquire(b), &all = batches.acquire(b);
      ASSERT_EQ(sparse.rows, all.rows);
      ASSERT_TRUE(std::equal(all.labels(), all.labels() + options.batch, sparse.labels()));
      const std::vector<float> numbers = numbers_of(sparse.fields, options.batch);
      ASSERT_TRUE(std::equal(numbers.begin(), numbers.end(), all.samples())) << b;
      sparse_batches.release(sparse);
      batches.release(all);
    }
  }
}

/// In any order, and from any batch of an epoch on.
TEST(SparseRows, AreWrittenByWhoeverAsks) {
  const auto set = sparse_set(300);
  const PipelineOptions options{.batch = 8, .shuffle = true, .seed = 3, .least_depth = 6};
  Pipeline batches(*set, set->train, options), alone(*set, set->train, options);
  const int64_t first = 5;
  std::vector<std::vector<float>> expected(static_cast<size_t>(alone.batches()));
  alone.start(1);
  for (int64_t b = 0; b < alone.batches(); ++b) {
    const Batch& batch = alone.acquire(b);
    expected[static_cast<size_t>(b)] = numbers_of(batch.fields, batch.rows);
    alone.release(batch);
  }
  batches.start(1, first);
  std::atomic<int64_t> next{batches.batches() - 1}, right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int64_t b = next--; b >= first; b = next--) {
        const Batch& batch = batches.acquire(b);
        right += batch.index == b &&
                 numbers_of(batch.fields, batch.rows) == expected[static_cast<size_t>(b)];
        batches.release(batch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, batches.batches() - first);
  EXPECT_EQ(batches.take_waited_seconds(), 0);
}

TEST(SparseRows, AreFoundFromAnyRowOn) {
  const auto set = sparse_set(40);
  Pipeline batches(*set, set->train, {.batch = 20});
  batches.start(0);
  const Batch& batch = batches.acquire(0);
  const BatchFormat format = set->info.batch_format();
  FieldAddresses fields = batch.fields;
  for (const int64_t first : {0, 3, 4, 12, 20}) {
    const std::vector<float> expected = numbers_of(batch.fields, batch.rows, first);
    fields = format.from_row(batch.fields, first);
    if (first < 20) {
      EXPECT_EQ(numbers_of(fields, 20 - first), expected) << first;
    }
    const FieldAddresses in_two =
        format.from_row(format.from_row(batch.fields, first / 2), first - first / 2);
    EXPECT_EQ(in_two, fields) << first;
  }
  batches.release(batch);
}

TEST(SparseRows, HaveRoomForTheLongest) {
  const auto set = sparse_set(100);
  const RowRoom& room = *set->info.room;
  std::vector<int64_t> lengths;
  for (const auto& split : {set->train, set->test}) {
    for (int64_t i = 0; i < split->size(); ++i)
      lengths.push_back(std::ssize(std::get<SparseRow>(split->sample(i, nullptr)).values));
  }
  std::sort(lengths.rbegin(), lengths.rend());
  EXPECT_EQ(room.of(0), 0);
  int64_t sum = 0;
  for (size_t r = 0; r < lengths.size(); ++r) {
    sum += lengths[r];
    EXPECT_EQ(room.of(static_cast<int64_t>(r) + 1), sum);
  }
  EXPECT_EQ(room.of(1000), sum);
  EXPECT_DOUBLE_EQ(room.mean, static_cast<double>(sum) / static_cast<double>(lengths.size()));
}

/// As the sets of the program have it: 12 of covtype's 54 numbers are not 0, and 0.2 % of
/// real-sim's.
TEST(SparseRows, AreNotThoseOfManyNumbers) {
  const auto set = sparse_set(100);
  const auto few = static_cast<int64_t>(set->info.room->mean / 0.05);
  EXPECT_FALSE(room_of(*set->train, *set->test, few));
  EXPECT_TRUE(room_of(*set->train, *set->test, few + 1));
}

}  // namespace
}  // namespace crossbow::data
