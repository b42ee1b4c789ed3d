// A GPU's queues, events, recordings and vector math.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "device/hogwild_sgd.h"
#include "device/sgd.h"
#include "support/error_text.h"
#include "support/gpu.h"

namespace crossbow::testing {
namespace {

constexpr size_t kNumbers = 100'000;

class OnGpuDevice : public ::testing::Test {
 protected:
  using Numbers = std::vector<float>;

  static Numbers numbers(float first, size_t count = kNumbers) {
    Numbers all(count);
    for (size_t i = 0; i < count; ++i) all[i] = first + 0.01f * static_cast<float>(i % 37);
    return all;
  }
  Buffer there(const Numbers& numbers) {
    Buffer buffer = device_.allocate(numbers.size() * sizeof(float));
    device_.copy_now(buffer.data(), numbers.data(), buffer.size());
    return buffer;
  }
  Numbers here(const Buffer& buffer) {
    Numbers numbers(buffer.size() / sizeof(float));
    device_.copy_now(numbers.data(), buffer.data(), buffer.size());
    return numbers;
  }
  static void expect_near(const Numbers& found, const Numbers& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
  }

  Device& device_ = find_device(gpu());
};

TEST_F(OnGpuDevice, QueuesCopyWriteAndZeroInOrder) {
  const auto queue = device_.make_queue();
  const Numbers from = numbers(1);
  const Buffer a = device_.allocate(kNumbers * sizeof(float)),
               b = device_.allocate(kNumbers * sizeof(float));
  queue->zero(b.data(), b.size());
  queue->copy(a.data(), from.data(), a.size());
  queue->copy(b.data() + 4000, a.data() + 4000, a.size() - 4000);
  std::vector<float> few(700, 5);  // more than one launch's arguments hold
  queue->write(b.data(), few.data(), few.size() * sizeof(float));
  few.assign(few.size(), 6);
  queue->finish();
  Numbers expected = from;
  for (size_t i = 0; i < 1000; ++i) expected[i] = i < 700 ? 5 : 0;
  EXPECT_EQ(here(b), expected);
}

TEST_F(OnGpuDevice, QueuesWaitForEachOther) {
  const auto first = device_.make_queue(), second = device_.make_queue();
  const auto made = device_.make_event(), used = device_.make_event();
  constexpr size_t kMany = 1 << 22;
  const Buffer x = there(numbers(0, kMany)), y = device_.allocate(x.size());
  made->finish();  // nothing to wait for yet
  const std::array<double, 1> half{0.5};
  const std::array<const void*, 1> terms{x.data()};
  for (int round = 0; round < 20; ++round) {
    first->math(DType::f32).combine(half, terms, x.data(), kMany);
    first->mark(*made);
    second->wait(*made);
    second->copy(y.data(), x.data(), x.size());
    second->mark(*used);
    first->wait(*used);
  }
  second->finish();
  Numbers expected = numbers(0, kMany);
  for (float& number : expected) number = std::ldexp(number, -20);
  EXPECT_EQ(here(y), expected);
}

TEST_F(OnGpuDevice, RecordingsRunAgain) {
  const auto queue = device_.make_queue();
  const Buffer x = there(numbers(1)), y = there(numbers(0));
  const std::array<double, 2> factors{1, 1};
  const std::array<const void*, 2> terms{y.data(), x.data()};
  const auto recording =
      queue->record([&] { queue->math(DType::f32).combine(factors, terms, y.data(), kNumbers); });
  ASSERT_TRUE(recording);
  queue->finish();
  EXPECT_EQ(here(y), numbers(0)) << "recording runs nothing";
  recording->replay();
  queue->finish();
  const double before = device_.free_memory_mb();
  const int times = has_gpu() ? 200'000 : 200;
  for (int i = 0; i < times; ++i) {
    if (i == times - 3) queue->zero(y.data(), y.size());
    recording->replay();
  }
  queue->finish();
  EXPECT_GT(device_.free_memory_mb(), before - 64);  // tests beside this one take some
  Numbers expected = numbers(1);
  for (float& number : expected) number = number + number + number;
  EXPECT_EQ(here(y), expected);
}

/// y_i = x aside, which is read as soon as a join allows; given once, and recorded.
TEST_F(OnGpuDevice, QueuesWorkAside) {
  const auto queue = device_.make_queue();
  constexpr size_t kMany = 1 << 20, kTimes = 8, kLag = Queue::kMostAside;
  const Buffer x = there(Numbers(kMany, 1)), sum = device_.allocate(x.size());
  std::vector<Buffer> y;
  for (size_t i = 0; i < kTimes; ++i) y.push_back(device_.allocate(x.size()));
  const auto add = [&](const Buffer& term) {
    const std::array<double, 2> factors{2, 1};
    const std::array<const void*, 2> terms{sum.data(), term.data()};
    queue->math(DType::f32).combine(factors, terms, sum.data(), kMany);
  };
  const auto give = [&] {
    queue->zero(sum.data(), sum.size());
    for (const Buffer& buffer : y) queue->zero(buffer.data(), buffer.size());
    for (size_t i = 0; i < kTimes + kLag; ++i) {
      if (i < kTimes) queue->aside([&] { queue->copy(y[i].data(), x.data(), x.size()); });
      queue->join(static_cast<int>(i < kTimes ? kLag : kTimes + kLag - 1 - i));
      if (i >= kLag) add(y[i - kLag]);
    }
  };
  const Numbers expected(kMany, (1 << kTimes) - 1);
  give();
  queue->finish();
  EXPECT_EQ(here(sum), expected);
  const auto recording = queue->record(give);
  ASSERT_TRUE(recording);
  for (int i = 0; i < 3; ++i) recording->replay();
  queue->finish();
  EXPECT_EQ(here(sum), expected);
}

TEST_F(OnGpuDevice, ComputesAsTheReferenceDoes) {
  const auto queue = device_.make_queue();
  const VectorMath &math = queue->math(DType::f32), &ref = vector_math("ref", DType::f32);
  const Numbers w = numbers(1), g = numbers(-0.2f), v = numbers(0.3f), z = numbers(0.9f);
  for (int set = 0; set < 16; ++set) {
    SCOPED_TRACE(set);
    const bool pulled = set & 1, nesterov = set & 2, hogwild = set & 4, decay = set & 8;
    const Optimizer optimizer =
        hogwild ? make_hogwild_sgd(0.01, nesterov)
                : make_sgd({.momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov});
    const UpdateStep step = optimizer.at(0.1, pulled && !hogwild ? 0.3 : 0);
    Numbers slot = v, next = w;
    const Numbers central = z;
    const auto update = [&](const VectorMath& by, const void* weights, const void* gradient,
                            void* slots, const void* z, void* out) {
      by.update(*optimizer.rule, step,
                {weights, gradient, {slots}, pulled ? z : nullptr, out, nullptr, decay}, kNumbers);
    };
    update(ref, w.data(), g.data(), slot.data(), central.data(), next.data());
    const Buffer on_w = there(w), on_g = there(g), on_v = there(v), on_z = there(z),
                 on_next = there(w);
    update(math, on_w.data(), on_g.data(), on_v.data(), on_z.data(), on_next.data());
    queue->finish();
    expect_near(here(on_next), next);
    expect_near(here(on_v), slot);
  }
  const Buffer x = there(w), sums = device_.allocate(2 * sizeof(double)),
               scale = device_.allocate(sizeof(double));
  math.squared_norm(x.data(), kNumbers, sums.as<double>());
  math.squared_norm(x.data(), kNumbers, sums.as<double>() + 1);
  math.find_clip_scale(100, sums.as<double>(), 2, scale.as<double>());
  double found[3];
  queue->copy(found, sums.data(), sums.size());
  queue->copy(&found[2], scale.data(), scale.size());
  queue->finish();
  double expected;
  ref.squared_norm(w.data(), kNumbers, &expected);
  EXPECT_NEAR(found[0], expected, 1e-9 * expected);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NEAR(found[2], clip_scale(100, std::array{expected, expected}), 1e-12);
}

TEST_F(OnGpuDevice, SaysHowMuchMemoryThereIs) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  EXPECT_GT(device_.memory_mb(), 1000);
  EXPECT_LE(device_.free_memory_mb(), device_.memory_mb());
  const std::string why = error_of([&] { device_.allocate(size_t{1} << 50); });
  EXPECT_NE(why.find("use fewer learners or a smaller batch"), std::string::npos) << why;
  EXPECT_EQ(here(there(numbers(1))), numbers(1)) << "the GPU goes on";
}

}  // namespace
}  // namespace crossbow::testing
