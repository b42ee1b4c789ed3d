#include "data/pipeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <set>
#include <utility>

#include "data/files.h"
#include "data/memory.h"

namespace crossbow::data {
namespace {

constexpr int64_t kSide = 6;

/// Image i has label i. Its pixels count from 1 to 36 in the first channel and from 101 in the
/// second, so that where each came from can be told.
class CountingSplit : public Split {
 public:
  explicit CountingSplit(int64_t size) : Split(labels(size)) {}
  Sample sample(int64_t i, std::vector<uint8_t>* file) const override {
    file->resize(2 * kSide * kSide);
    uint8_t* const scratch = file->data();
    const int now = ++readers_;
    for (int most = most_readers; now > most && !most_readers.compare_exchange_weak(most, now);) {
    }
    if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    if (i == slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --readers_;
    if (bad.contains(i)) fail("image {} is damaged", i);
    for (int64_t k = 0; k < kSide * kSide; ++k) {
      scratch[k] = static_cast<uint8_t>(1 + k);
      scratch[kSide * kSide + k] = static_cast<uint8_t>(101 + k);
    }
    return scratch;
  }
  bool in_memory() const override { return false; }
  void expect(int64_t i) const override {
    const std::lock_guard lock(mutex_);
    expected_.insert(i);
  }
  std::multiset<int64_t> take_expected() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(expected_, {});
  }

  std::set<int64_t> bad;
  int64_t slow = -1;
  int delay_ms = 0;
  mutable std::atomic<int> most_readers = 0;  // at a time

 private:
  static std::vector<int32_t> labels(int64_t size) {
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < size; ++i) labels.push_back(static_cast<int32_t>(i));
    return labels;
  }

  mutable std::atomic<int> readers_ = 0;
  mutable std::mutex mutex_;
  mutable std::multiset<int64_t> expected_;
};

Dataset counting_set(std::shared_ptr<const CountingSplit> split) {
  Info info{"counting", {2, kSide, kSide}, split->size(), {}, {}};
  return {info, split, split};
}
Dataset counting_set(int64_t size) {
  return counting_set(std::make_shared<const CountingSplit>(size));
}

Pipeline make_pipeline(const Dataset& set, const PipelineOptions& options) {
  return Pipeline(set, set.train, options);
}

struct Served {
  std::vector<int32_t> labels;
  std::vector<float> images;
  std::vector<int64_t> rows;

  friend bool operator==(const Served& a, const Served& b) {
    return a.labels == b.labels && a.images == b.images && a.rows == b.rows;
  }
};

Served take(Pipeline& pipeline, int64_t first = 0, int64_t end = -1) {
  Served served;
  for (int64_t i = first; i < (end < 0 ? pipeline.batches() : end); ++i) {
    const Batch& batch = pipeline.acquire(i);
    EXPECT_EQ(batch.index, i);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.samples()) % 4096, 0u);
    served.rows.push_back(batch.rows);
    served.labels.insert(served.labels.end(), batch.labels(), batch.labels() + batch.rows);
    served.images.insert(served.images.end(), batch.samples(),
                         batch.samples() + batch.rows * 2 * kSide * kSide);
    pipeline.release(batch);
  }
  return served;
}

Served epoch(Pipeline& pipeline, int64_t number, int64_t first = 0) {
  pipeline.start(number, first);
  return take(pipeline, first);
}

std::vector<int32_t> order_of(const Dataset& set, PipelineOptions options) {
  Pipeline pipeline(set, set.train, options);
  pipeline.start(1);
  std::vector<int32_t> labels;
  for (int64_t b = 0; b < pipeline.batches(); ++b) {
    const Batch& batch = pipeline.acquire(b);
    labels.insert(labels.end(), batch.labels(), batch.labels() + batch.rows);
    pipeline.release(batch);
  }
  return labels;
}

const PipelineOptions kRandom{
    .batch = 4, .shuffle = true, .augment = {.pad = 2, .mirror = true}, .seed = 7};

PipelineOptions with_threads(PipelineOptions options, int threads, int depth = 0) {
  options.threads = threads;
  options.depth = depth;
  return options;
}

/// Between two segments of an epoch, when some batches are made already.
TEST(Pipeline, GrowsInTheMiddleOfAnEpoch) {
  const PipelineOptions options = with_threads(kRandom, 2, 3);
  Pipeline plain = make_pipeline(counting_set(50), options);
  Pipeline grows = make_pipeline(counting_set(50), options);
  EXPECT_EQ(grows.buffer_bytes(),
            Pipeline::buffer_bytes(BatchFormat::dense(2 * kSide * kSide), 50, options));
  const int64_t of_one = grows.buffer_bytes() / 3;
  grows.start(0);
  Served served = take(grows, 0, 4);
  grows.serve(10, {});
  EXPECT_EQ(grows.buffer_bytes(), 10 * of_one);
  std::vector<const Batch*> held;
  for (int64_t i = 4; i < 13; ++i) held.push_back(&grows.acquire(i));
  for (const Batch* batch : held) {
    served.rows.push_back(batch->rows);
    served.labels.insert(served.labels.end(), batch->labels(), batch->labels() + batch->rows);
    served.images.insert(served.images.end(), batch->samples(),
                         batch->samples() + batch->rows * 2 * kSide * kSide);
    grows.release(*batch);
  }
  EXPECT_EQ(served, epoch(plain, 0));
}

TEST(Pipeline, HasNoMoreBuffersThanAnEpochHasBatches) {
  const PipelineOptions options{.batch = 20, .least_depth = 8};
  Pipeline pipeline = make_pipeline(counting_set(50), options);
  constexpr int64_t kOfOne = 20 * 2 * kSide * kSide * int64_t{sizeof(float)};
  EXPECT_LT(pipeline.buffer_bytes(), 3 * (kOfOne + 2 * 4096));
  EXPECT_GE(pipeline.buffer_bytes(), 3 * kOfOne);
  EXPECT_EQ(pipeline.buffer_bytes(),
            Pipeline::buffer_bytes(BatchFormat::dense(2 * kSide * kSide), 50, options));
  pipeline.serve(100, {});
  EXPECT_LT(pipeline.buffer_bytes(), 3 * (kOfOne + 2 * 4096));
  const Served served = epoch(pipeline, 0);
  EXPECT_EQ(served.rows, (std::vector<int64_t>{20, 20, 10}));
}

TEST(Pipeline, ServesEverySampleAndAPartialLastBatch) {
  Pipeline pipeline = make_pipeline(counting_set(11), {.batch = 4});
  EXPECT_EQ(pipeline.batches(), 3);
  const Served served = epoch(pipeline, 0);
  EXPECT_EQ(served.rows, (std::vector<int64_t>{4, 4, 3}));
  for (int i = 0; i < 11; ++i) EXPECT_EQ(served.labels[static_cast<size_t>(i)], i);
}

TEST(Pipeline, FillsAPartialBatchUpWithZeros) {
  Pipeline pipeline = make_pipeline(counting_set(7), {.batch = 4, .depth = 1});
  pipeline.start(0);
  take(pipeline, 0, 1);
  const Batch& last = pipeline.acquire(1);
  ASSERT_EQ(last.rows, 3);
  EXPECT_EQ(last.labels()[2], 6);
  EXPECT_EQ(last.labels()[3], 0);
  for (int64_t k = 0; k < 2 * kSide * kSide; ++k) {
    ASSERT_EQ(last.samples()[3 * 2 * kSide * kSide + k], 0.0f);
  }
  pipeline.release(last);
}

TEST(Pipeline, ShufflesAnewEachEpochAndLosesNothing) {
  Pipeline pipeline = make_pipeline(counting_set(50), kRandom);
  std::vector<int32_t> first = epoch(pipeline, 0).labels, second = epoch(pipeline, 1).labels;
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_EQ(epoch(pipeline, 0).labels, first);
  std::sort(first.begin(), first.end());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(first[static_cast<size_t>(i)], i);
}

TEST(Pipeline, DependsOnTheSeed) {
  PipelineOptions other = kRandom;
  other.seed = 8;
  Pipeline a = make_pipeline(counting_set(50), kRandom), b = make_pipeline(counting_set(50), other);
  EXPECT_NE(epoch(a, 0).labels, epoch(b, 0).labels);
}

TEST(Pipeline, IsTheSameForAnyNumberOfThreadsAndBuffers) {
  const Dataset set = counting_set(101);
  Pipeline one = make_pipeline(set, with_threads(kRandom, 1));
  for (const int threads : {2, 5}) {
    for (const int depth : {1, 2, 9}) {
      Pipeline many = make_pipeline(set, with_threads(kRandom, threads, depth));
      for (const int64_t number : {0, 3}) {
        EXPECT_TRUE(epoch(one, number) == epoch(many, number)) << threads << " " << depth;
      }
    }
  }
}

TEST(Pipeline, BeginsInMidEpoch) {
  Pipeline pipeline = make_pipeline(counting_set(50), kRandom);
  pipeline.start(2);
  take(pipeline, 0, 5);
  const Served rest = take(pipeline, 5);
  EXPECT_TRUE(epoch(pipeline, 2, 5) == rest);
  EXPECT_TRUE(epoch(pipeline, 2, pipeline.batches()).labels.empty());
}

TEST(Pipeline, NormalisesWithTheSetsValues) {
  Dataset set = counting_set(1);
  set.info.normalisation = {{0.5f, 0, 0}, {0.5f, 1, 1}};
  Pipeline pipeline = make_pipeline(set, {.batch = 1});
  const Served served = epoch(pipeline, 0);
  EXPECT_FLOAT_EQ(served.images[9], 10 / 127.5f - 1);
  EXPECT_FLOAT_EQ(served.images[kSide * kSide + 9], 110 / 255.0f);
}

TEST(Pipeline, PixelsNormalisedAreTheFloats) {
  Dataset set = counting_set(40);
  set.info.normalisation = {{0.3f, 0.5f, 0}, {0.2f, 0.1f, 1}};
  Pipeline floats = make_pipeline(set, kRandom);
  const std::vector<float> expected = epoch(floats, 1).images;
  set.info.sample_type = DType::u8;
  Pipeline pixels = make_pipeline(set, kRandom);
  pixels.start(1);
  size_t at = 0;
  for (int64_t b = 0; b < pixels.batches(); ++b) {
    const Batch& batch = pixels.acquire(b);
    for (int64_t i = 0; i < batch.rows * 2 * kSide * kSide; ++i) {
      const auto channel = static_cast<size_t>(i / (kSide * kSide) % 2);
      ASSERT_EQ(set.info.normalisation.of(batch.pixels()[i], channel), expected[at++]);
    }
    pixels.release(batch);
  }
  EXPECT_EQ(at, expected.size());
}

/// In bytes and in floats: nearest to the mean of each channel.
TEST(Pipeline, BordersNormaliseToAboutZero) {
  Dataset set = counting_set(40);
  set.info.normalisation = {{0.3f, 0.5f, 0}, {0.2f, 0.1f, 1}};
  const PipelineOptions far{.batch = 40, .augment = {.pad = 40}};
  Pipeline floats = make_pipeline(set, far);
  set.info.sample_type = DType::u8;
  Pipeline pixels = make_pipeline(set, far);
  pixels.start(0);
  floats.start(0);
  const Batch &bytes = pixels.acquire(0), &numbers = floats.acquire(0);
  constexpr int64_t kPlane = kSide * kSide;
  const std::array<uint8_t, 2> border{77, 128};
  int64_t only_border = 0;
  for (int64_t plane = 0; plane < 80; ++plane) {
    const uint8_t expected = border[static_cast<size_t>(plane % 2)];
    const uint8_t* const first = bytes.pixels() + plane * kPlane;
    if (std::any_of(first, first + kPlane, [&](uint8_t v) { return v != expected; })) continue;
    ++only_border;
    EXPECT_LT(std::abs(numbers.samples()[plane * kPlane]), 0.03f);
  }
  EXPECT_GT(only_border, 40);
}

TEST(Pipeline, BordersOfNumbersAreZeros) {
  const std::vector<float> numbers(32, 5.0f);
  const std::vector<int32_t> labels{0, 0};
  Info info;
  info.image = {1, 4, 4};
  info.classes = 1;
  info.normalisation = {{0.5f, 0, 0}, {0.5f, 1, 1}};
  const auto set = from_memory(info, {numbers, labels}, {numbers, labels});
  Pipeline pipeline = make_pipeline(*set, {.batch = 2, .augment = {.pad = 2}});
  std::set<float> seen;
  for (int64_t number = 0; number < 4; ++number) {
    pipeline.start(number);
    const Batch& batch = pipeline.acquire(0);
    seen.insert(batch.samples(), batch.samples() + 32);
    pipeline.release(batch);
  }
  EXPECT_EQ(seen, (std::set<float>{0, 5}));
}

/// Of one of two ranks with four learners each.
TEST(Pipeline, AnnouncesTheRowsOfItsOwnBatchesOnce) {
  const auto split = std::make_shared<CountingSplit>(256);
  const Dataset set = counting_set(split);
  Pipeline pipeline = make_pipeline(set, with_threads({.batch = 4}, 2, 3));
  const BatchShare share{.first = 0, .count = 4, .all = 8};
  pipeline.serve(8, share);
  pipeline.start(0);
  std::multiset<int64_t> own;
  for (int64_t b = 0; b < pipeline.batches(); b = share.next_from(b + 1)) {
    pipeline.release(pipeline.acquire(b));
    if (b == 0) continue;  // made at once
    for (int64_t row = 4 * b; row < 4 * b + 4; ++row) own.insert(row);
  }
  EXPECT_EQ(split->take_expected(), own);
}

TEST(Pipeline, ABatchOfPixelsNeedsPixels) {
  const std::vector<float> numbers(16);
  const std::vector<int32_t> labels{0};
  Info info;
  info.image = {1, 4, 4};
  info.classes = 1;
  const auto memory = from_memory(info, {numbers, labels}, {numbers, labels});
  Dataset set = *memory;
  set.info.sample_type = DType::u8;
  EXPECT_ERROR(make_pipeline(set, {.batch = 1}), "are no pixels");
}

/// How an augmented image was made, found from its pixels; every pixel is checked against it.
struct Change {
  int64_t down, right;
  bool mirror;
  friend bool operator<(const Change& a, const Change& b) {
    return std::tie(a.down, a.right, a.mirror) < std::tie(b.down, b.right, b.mirror);
  }
};

/// Which of the 36 pixels is at (y, x) of a channel; -1 for padding.
int64_t source_at(const float* image, int64_t channel, int64_t y, int64_t x) {
  const float value = image[(channel * kSide + y) * kSide + x];
  return value == 0 ? -1 : std::lround(value * 255) - 1 - 100 * channel;
}

Change change_of(const float* image) {
  const int64_t a = source_at(image, 0, 3, 2), b = source_at(image, 0, 3, 3);
  Change change{a / kSide - 3, 0, b < a};
  change.right = a % kSide - (change.mirror ? kSide - 1 - 2 : 2);
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const int64_t from_y = y + change.down;
        const int64_t from_x = (change.mirror ? kSide - 1 - x : x) + change.right;
        const bool inside = from_y >= 0 && from_y < kSide && from_x >= 0 && from_x < kSide;
        EXPECT_EQ(source_at(image, c, y, x), inside ? from_y * kSide + from_x : -1);
      }
    }
  }
  return change;
}

TEST(Pipeline, CropsAndMirrorsOverTheWholeRange) {
  Pipeline pipeline = make_pipeline(counting_set(400), kRandom);
  const Served served = epoch(pipeline, 0);
  std::set<Change> seen;
  int mirrored = 0;
  for (size_t i = 0; i < 400; ++i) {
    const Change change = change_of(served.images.data() + i * 2 * kSide * kSide);
    ASSERT_LE(std::abs(change.down), 2);
    ASSERT_LE(std::abs(change.right), 2);
    seen.insert(change);
    mirrored += change.mirror;
  }
  EXPECT_EQ(seen.size(), 5u * 5 * 2);
  EXPECT_NEAR(mirrored, 200, 50);
}

TEST(Pipeline, AugmentsASampleAnewEachEpoch) {
  PipelineOptions options = kRandom;
  options.shuffle = false;
  Pipeline pipeline = make_pipeline(counting_set(40), options);
  const Served first = epoch(pipeline, 0), second = epoch(pipeline, 1);
  EXPECT_EQ(first.labels, second.labels);
  EXPECT_NE(first.images, second.images);
}

TEST(Pipeline, PadsFarBeyondTheImage) {
  Pipeline pipeline = make_pipeline(counting_set(30), {.batch = 30, .augment = {.pad = 40}});
  const Served served = epoch(pipeline, 0);
  EXPECT_TRUE(
      std::any_of(served.images.begin(), served.images.end() - 1, [](float v) { return v == 0; }));
}

TEST(Pipeline, ThrowsAtTheBatchThatFailed) {
  const auto split = std::make_shared<CountingSplit>(20);
  split->bad = {9};
  const Dataset set = counting_set(split);
  Pipeline pipeline = make_pipeline(set, with_threads({.batch = 4}, 2));
  for (int round = 0; round < 3; ++round) {
    pipeline.start(round);
    EXPECT_EQ(take(pipeline, 0, 2).labels.size(), 8u);
    EXPECT_ERROR(pipeline.acquire(2), "image 9 is damaged");
    EXPECT_EQ(take(pipeline, 3).labels.size(), 8u);
  }
}

/// The one that its thread is done with last comes first in the batch.
TEST(Pipeline, NamesTheFirstOfSeveralThatFailed) {
  const auto split = std::make_shared<CountingSplit>(8);
  split->bad = {2, 3, 7};
  split->slow = 2;
  const Dataset set = counting_set(split);
  Pipeline pipeline = make_pipeline(set, with_threads({.batch = 8}, 4));
  pipeline.start(0);
  EXPECT_ERROR(pipeline.acquire(0), "image 2 is damaged");
}

TEST(Pipeline, ThreadsShareABatch) {
  const auto split = std::make_shared<CountingSplit>(16);
  split->delay_ms = 5;
  const Dataset set = counting_set(split);
  Pipeline pipeline = make_pipeline(set, with_threads({.batch = 8}, 4, 1));
  epoch(pipeline, 0);
  EXPECT_GT(split->most_readers, 1);
}

TEST(Pipeline, RefusesWhatWouldWaitForEver) {
  const Dataset set = counting_set(20);
  Pipeline pipeline = make_pipeline(set, {.batch = 4});
  EXPECT_ERROR(pipeline.acquire(0), "no batch 0");
  pipeline.start(0, 2);
  EXPECT_ERROR(pipeline.acquire(5), "no batch 5");
  EXPECT_ERROR(pipeline.acquire(1), "batch 1 was served before");
  const Batch& held = pipeline.acquire(2);
  EXPECT_ERROR(pipeline.acquire(2), "batch 2 was served before");
  EXPECT_ERROR(pipeline.start(1), "all batches of the last are released");
  pipeline.release(held);
  EXPECT_ERROR(pipeline.start(0, 6), "cannot begin at batch 6");
  EXPECT_ERROR(make_pipeline(set, {.batch = 0}), "at least 1 sample");
  EXPECT_ERROR(make_pipeline(set, {.augment = {.pad = -1}}), "pad of -1");
  Dataset four_channels = counting_set(1);
  four_channels.info.image = {4, kSide, kSide};
  EXPECT_ERROR(make_pipeline(four_channels, {}), "1 to 3 channels, not 4");
}

TEST(Pipeline, CountsTheTimeWaited) {
  const auto split = std::make_shared<CountingSplit>(4);
  split->delay_ms = 10;
  const Dataset set = counting_set(split);
  Pipeline pipeline = make_pipeline(set, with_threads({.batch = 2}, 1));
  epoch(pipeline, 0);
  EXPECT_GE(pipeline.take_waited_seconds(), 0.02);
  EXPECT_EQ(pipeline.take_waited_seconds(), 0);
  epoch(pipeline, 1);
  pipeline.start(2);
  EXPECT_EQ(pipeline.take_waited_seconds(), 0);
}

/// All buffers hold batches that nobody will take.
TEST(Pipeline, CancellingWakesWhoWouldWaitForEver) {
  const Dataset set = counting_set(20);
  Pipeline pipeline = make_pipeline(set, {.batch = 2, .depth = 2});
  pipeline.start(0);
  const Batch& held = pipeline.acquire(0);
  std::thread learner([&] { EXPECT_ERROR(pipeline.acquire(9), "batch 9 is not waited for"); });
  pipeline.cancel();
  learner.join();
  pipeline.release(held);
  EXPECT_EQ(epoch(pipeline, 1), epoch(pipeline, 1));
}

TEST(Pipeline, StopsAndRestartsAtAnyMoment) {
  const auto split = std::make_shared<CountingSplit>(200);
  split->delay_ms = 1;
  const Dataset set = counting_set(split);
  for (int round = 0; round < 20; ++round) {
    Pipeline pipeline = make_pipeline(set, with_threads(kRandom, 3, 5));
    if (round % 4 == 0) continue;  // never started
    pipeline.start(round);
    take(pipeline, 0, round % 3);
    pipeline.start(round + 1, round % 7);
    if (round % 2) take(pipeline, round % 7, round % 7 + 2);
  }
}

TEST(Pipeline, FeedsSeveralLearnersAtATime) {
  const Dataset set = counting_set(500);
  Pipeline pipeline = make_pipeline(set, with_threads(kRandom, 2, 4));
  constexpr int kLearners = 3;
  for (int64_t number = 0; number < 3; ++number) {
    pipeline.start(number);
    std::vector<std::vector<int32_t>> labels(static_cast<size_t>(pipeline.batches()));
    std::vector<std::thread> learners;
    for (int learner = 0; learner < kLearners; ++learner) {
      learners.emplace_back([&, learner] {
        for (int64_t i = learner; i < pipeline.batches(); i += kLearners) {
          const Batch& batch = pipeline.acquire(i);
          labels[static_cast<size_t>(i)].assign(batch.labels(), batch.labels() + batch.rows);
          pipeline.release(batch);
        }
      });
    }
    for (std::thread& learner : learners) learner.join();
    std::vector<int32_t> all;
    for (const auto& some : labels) all.insert(all.end(), some.begin(), some.end());
    EXPECT_EQ(all, epoch(pipeline, number).labels);
  }
}

TEST(Pipeline, BlocksOfNeighboursStayInOrder) {
  constexpr int32_t kSize = 1003, kBlock = 5;
  const Dataset set = counting_set(kSize);
  PipelineOptions options{.batch = 16, .shuffle = true, .seed = 3, .shuffle_block = kBlock};
  const std::vector<int32_t> order = order_of(set, options);
  std::vector<int32_t> sorted = order;
  std::ranges::sort(sorted);
  for (int32_t i = 0; i < kSize; ++i) ASSERT_EQ(sorted[static_cast<size_t>(i)], i);
  EXPECT_NE(order, sorted);
  std::vector<int32_t> next(kSize / kBlock + 1, 0), left(kSize / kBlock + 1, kBlock);
  std::set<int32_t> begun;
  for (const int32_t sample : order) {
    const auto block = static_cast<size_t>(sample / kBlock);
    ASSERT_EQ(sample % kBlock, next[block]++);
    begun.insert(sample / kBlock);
    if (--left[block] == 0) begun.erase(sample / kBlock);
    ASSERT_LE(begun.size(), 64u);
  }
  EXPECT_EQ(order_of(set, options), order);
  options.shuffle_block = std::numeric_limits<int64_t>::max();  // one block
  EXPECT_EQ(order_of(set, options), sorted);
}

/// As an order of single samples does: 100 of each class, give or take some 10, and at most 16 more
/// where a part has two classes.
TEST(Pipeline, BlocksOfASortedSetSpreadItsClasses) {
  constexpr int32_t kSize = 20'000, kClass = 2'000, kWindow = 1'000;
  const Dataset set = counting_set(kSize);
  const std::vector<int32_t> order =
      order_of(set, {.batch = 16, .shuffle = true, .seed = 3, .shuffle_block = 64});
  for (size_t first = 0; first < order.size(); first += kWindow) {
    std::vector<int> counts(kSize / kClass);
    for (size_t i = first; i < first + kWindow; ++i)
      ++counts[static_cast<size_t>(order[i] / kClass)];
    for (const int count : counts) EXPECT_NEAR(count, 100, 50) << first;
  }
}

}  // namespace
}  // namespace crossbow::data
