// Gradients that are added up over ranks in buckets, while the learners' steps go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <numeric>

#include "comm/thread_world.h"
#include "learner/gradient_buckets.h"
#include "learner/quadratic.h"
#include "passes/passes.h"
#include "support/error_text.h"
#include "support/lars.h"
#include "support/model_testing.h"
#include "support/one_rank.h"

namespace crossbow::testing {
namespace {

using Pieces = std::vector<ParameterLayout::Piece>;

ParameterLayout layout_of(const std::vector<int64_t>& sizes) {
  ParameterLayout layout;
  for (const int64_t n : sizes) {
    layout.add_parameter(std::to_string(n), Layout::plain({n}, DType::f32),
                         Initialiser::constant(0));
  }
  return layout;
}

std::vector<int64_t> sizes_of_buckets(const std::vector<int64_t>& parameters) {
  std::vector<int64_t> sizes;
  for (const auto& bucket : gradient_buckets(layout_of(parameters)))
    sizes.push_back(bucket.elements);
  return sizes;
}

TEST(Buckets, BeginWithTheNetsLastParameters) {
  EXPECT_EQ(sizes_of_buckets({16, 140000, 32, 200000, 48}),
            (std::vector<int64_t>{200048, 140032, 16}));
}

TEST(Buckets, AreOneOfAFewParameters) {
  EXPECT_EQ(sizes_of_buckets({65520}), (std::vector<int64_t>{65520}));
  EXPECT_EQ(sizes_of_buckets({16000, 32000, 160}), (std::vector<int64_t>{48160}));
}

TEST(Buckets, AreAtMostFourOfWholeParameters) {
  for (const Model* const model : distinct_models()) {
    const auto program = Program::compile(with_gradients(small_model(*model)), cpu());
    const ParameterLayout& layout = *program->parameters();
    const Pieces buckets = gradient_buckets(layout);
    EXPECT_LE(buckets.size(), 4U) << model->name;
    int64_t end = layout.parameter_elements;
    for (const auto& [first, elements, decay] : buckets) {
      EXPECT_EQ(first + elements, end) << model->name;
      end = first;
      EXPECT_TRUE(std::ranges::any_of(layout.parameters, [&](const auto& slot) {
        return slot.offset == first;
      })) << model->name;
    }
    EXPECT_EQ(end, 0) << model->name;
  }
}

/// What lies behind a cut is there when it is passed, and at most cuts something else is missing.
TEST(Buckets, ArePassedOnceTheirGradientsAreThere) {
  for (const char* const name : {"lenet", "resnet-20", "mobilenet-v2", "mlp"}) {
    const Model* const model = &find_model(name);
    const Graph graph = with_gradients(fuse(small_model(*model)));
    for (const CompileOptions& options : {reference(DType::f32), cpu()}) {
      GraphRun whole(graph, options);
      whole.run();
      const auto program = Program::compile(graph, options);
      const ParameterLayout& layout = *program->parameters();
      std::vector<int64_t> cuts;
      for (size_t i = layout.parameters.size(); i-- > 0;) {
        if (i % std::max<size_t>(layout.parameters.size() / 6, 1) == 0)
          cuts.push_back(layout.parameters[i].offset);
      }
      Replica replica(layout);
      initialise(layout, replica, 1);
      const Workspace workspace(find_device(options.device), program->arena_bytes(),
                                program->input_bytes());
      const Execution execution(program, replica, workspace, cuts);
      const auto n = static_cast<size_t>(layout.parameter_elements);
      const float nan = std::nanf("");
      std::fill_n(replica.gradients.as<float>(), n, nan);
      std::vector<std::vector<float>> seen;
      const auto gradients = [&] {
        const float* const all = replica.gradients.as<float>();
        return std::vector<float>(all, all + n);
      };
      execution.run(
          whole.step(), [] { return true; },
          [&](size_t cut) {
            EXPECT_EQ(cut, seen.size() + 1);
            seen.push_back(gradients());
          });
      const std::vector<float> last = gradients();
      ASSERT_EQ(seen.size(), cuts.size()) << model->name;
      int64_t early = 0;
      for (size_t cut = 0; cut < cuts.size(); ++cut) {
        const auto at = static_cast<size_t>(cuts[cut]) * sizeof(float);
        const auto bytes = n * sizeof(float) - at;
        EXPECT_EQ(std::memcmp(reinterpret_cast<const std::byte*>(seen[cut].data()) + at,
                              reinterpret_cast<const std::byte*>(last.data()) + at, bytes),
                  0)
            << model->name << ' ' << options.device << " from " << cuts[cut];
        early += std::memcmp(seen[cut].data(), last.data(), n * sizeof(float)) != 0;
      }
      if (cuts.size() > 4) {
        EXPECT_GT(2 * early, std::ssize(cuts)) << model->name << ' ' << options.device;
      }
    }
  }
}

/// A net whose gradient has three buckets.
QuadraticRun deep_run(int64_t learners) {
  QuadraticRun run{.sync = "ssgd", .options = {.learners = learners, .momentum = 0.9}};
  run.device = "cpu";
  run.hidden = 16;
  run.more_hidden = {512, 512, 512};
  return run;
}
constexpr int64_t kBuckets = 3;

struct Trained {
  std::vector<float> z, losses;
  bool operator==(const Trained&) const = default;
};

/// Two epochs, in three segments.
Trained trained(const QuadraticRun& run, int longest_delay_us, uint64_t seed) {
  QuadraticData data;
  data.longest_delay_us = longest_delay_us;
  data.seed = seed;
  QuadraticEngine engine(run);
  engine.run(data);
  engine->run(engine.segment(data, 0, 6));
  engine->run(engine.segment(data, 6, kBatches - 6));
  return {engine.z(), engine.losses};
}

/// As R ranks, of as many workers as learners.
void expect_bits_of_devices(QuadraticRun run, int ranks, int learners) {
  run.options.learners = ranks * learners;
  run.workers = learners;
  QuadraticRun devices = run;
  devices.devices = ranks;
  const Trained expected = trained(devices, 0, 0);
  ThreadWorlds(ranks).run([&](World& world) {
    QuadraticRun own = run;
    own.options.learners = learners;
    own.world = &world;
    const auto rank = static_cast<uint64_t>(world.rank());
    const Trained got = trained(own, 300, rank);
    EXPECT_EQ(got.z, expected.z) << ranks << " ranks, " << learners << " learners";
  });
}

TEST(Buckets, OfRanksHaveTheBitsOfDevices) {
  for (const int ranks : {2, 3}) {
    for (const int learners : {1, 2}) expect_bits_of_devices(deep_run(1), ranks, learners);
  }
}

/// Whose loops ThreadSanitizer sees.
TEST(Buckets, OfRanksHaveTheBitsOfDevicesOfTheReference) {
  QuadraticRun run = deep_run(1);
  run.device = "ref";
  expect_bits_of_devices(run, 2, 2);
}

TEST(Buckets, OfRanksHaveTheBitsOfDevicesWithAClipNorm) {
  QuadraticRun run = deep_run(1);
  run.clip_norm = 0.3;
  for (const int learners : {1, 2}) expect_bits_of_devices(run, 2, learners);
}

TEST(Buckets, OfRanksHaveTheBitsOfDevicesByParameter) {
  QuadraticRun run = deep_run(1);
  run.optimizer = make_lars(0.01);
  expect_bits_of_devices(run, 2, 2);
}

TEST(Buckets, OfRanksHaveTheBitsOfDevicesInParts) {
  QuadraticRun run = deep_run(1);
  run.splits = 2;
  expect_bits_of_devices(run, 2, 2);
}

/// A rank without others, whose sums are its own values. Notes each sum's elements, how many
/// batches had been acquired and released when it began, and whether all of it were numbers. From
/// the one of that number on they fail.
class NotingRank final : public OneRank {
 public:
  struct Began {
    int64_t elements, steps_begun, steps_over;
  };

  explicit NotingRank(const QuadraticData& data, Comm::Sum good = 1 << 20)
      : data_(data), good_(good) {}

  std::unique_ptr<Comm> make_comm(std::span<const int64_t> parts, DType,
                                  std::function<void()>) override {
    this->parts.assign(parts.begin(), parts.end());
    return std::make_unique<Sums>(*this);
  }

  std::vector<int64_t> parts;
  std::vector<Began> began;

 private:
  class Sums final : public OwnSums {
   public:
    explicit Sums(NotingRank& world) : world_(world) {}
    Sum start_sum(Queue&, void*, int64_t n) override {
      world_.began.push_back({n, world_.data_.acquired, world_.data_.released});
      return std::ssize(world_.began) - 1;
    }
    State state(Sum sum) const override { return sum < world_.good_ ? State::done : State::failed; }

   private:
    NotingRank& world_;
  };

  const QuadraticData& data_;
  const Comm::Sum good_;
};

TEST(Buckets, AllButTheLastBeginWithinTheStep) {
  QuadraticData data;
  NotingRank world(data);
  QuadraticRun run = deep_run(1);
  run.world = &world;
  QuadraticEngine engine(run);
  engine.run(data);
  ASSERT_EQ(world.parts.size(), static_cast<size_t>(kBuckets));
  ASSERT_EQ(world.began.size(), static_cast<size_t>(kBuckets * kBatches));
  for (int64_t sum = 0; sum < std::ssize(world.began); ++sum) {
    const auto& [elements, begun, over] = world.began[static_cast<size_t>(sum)];
    const int64_t step = sum / kBuckets, bucket = sum % kBuckets;
    EXPECT_EQ(elements, world.parts[static_cast<size_t>(bucket)]);
    EXPECT_EQ(begun, step + 1) << sum;
    EXPECT_EQ(over, bucket + 1 < kBuckets ? step : step + 1) << sum;
  }
}

/// With two learners, when the second of them has passed it. A thread has both.
TEST(Buckets, BeginWhenAllLearnersOfTheRankHavePassedThem) {
  QuadraticData data;
  NotingRank world(data);
  QuadraticRun run = deep_run(2);
  run.workers = 1;
  run.world = &world;
  QuadraticEngine engine(run);
  engine->run(engine.segment(data, 0, 10));
  ASSERT_EQ(world.began.size(), static_cast<size_t>(kBuckets * 5));
  for (int64_t sum = 0; sum < std::ssize(world.began); ++sum) {
    const auto& [elements, begun, over] = world.began[static_cast<size_t>(sum)];
    const int64_t step = sum / kBuckets, bucket = sum % kBuckets;
    EXPECT_EQ(begun, 2 * (step + 1)) << sum;
    EXPECT_EQ(over, 2 * step + (bucket + 1 < kBuckets ? 1 : 2)) << sum;
  }
}

/// Where the gradient is there at the step's end only, and where the weights are averaged.
TEST(Buckets, AreNotMadeWhereTheyWouldBeginNothingEarlier) {
  const auto parts = [](const QuadraticRun& run) {
    const QuadraticData data;
    NotingRank world(data);
    QuadraticRun of_rank = run;
    of_rank.world = &world;
    const QuadraticEngine engine(of_rank);
    return world.parts.size();
  };
  EXPECT_EQ(parts(deep_run(1)), static_cast<size_t>(kBuckets));
  QuadraticRun splits = deep_run(1);
  splits.splits = 2;
  EXPECT_EQ(parts(splits), 1U);
  QuadraticRun weights = deep_run(1);
  weights.sync = "sma";
  EXPECT_EQ(parts(weights), 1U);
  QuadraticRun late = deep_run(1);
  late.device = "late";
  EXPECT_EQ(parts(late), 1U);
}

/// A rank is lost while the sums of an exchange are made, of which some are there: z and the
/// optimizer's slots are what they were after the exchange before.
TEST(Buckets, ALossBetweenThemLeavesAWholeExchange) {
  const auto contents = [](QuadraticEngine& engine) {
    std::vector<std::vector<float>> all{engine.z()};
    for (const EngineBuffer& b : engine->state().buffers) {
      if (b.kind == EngineBuffer::Kind::slot)
        all.push_back(weights_at(engine->layout(), *b.device, b.data));
    }
    return all;
  };
  const auto after = [&](int64_t exchanges) {
    QuadraticData data;
    NotingRank world(data);
    QuadraticRun run = deep_run(2);
    run.world = &world;
    QuadraticEngine engine(run);
    if (exchanges > 0) engine->run(engine.segment(data, 0, 2 * exchanges));
    return contents(engine);
  };
  std::vector<std::vector<std::vector<float>>> whole;
  for (int64_t exchanges = 0; exchanges <= 3; ++exchanges) whole.push_back(after(exchanges));
  EXPECT_EQ(whole[3].size(), 2U);
  for (Comm::Sum good = 0; good <= 3 * kBuckets; ++good) {
    QuadraticData data;
    data.longest_delay_us = 300;
    data.seed = static_cast<uint64_t>(good);
    NotingRank world(data, good);
    QuadraticRun run = deep_run(2);
    run.world = &world;
    QuadraticEngine engine(run);
    EXPECT_THROW(engine.run(data), RankLost);
    engine->salvage();
    EXPECT_EQ(engine->state().place.exchanges, good / kBuckets) << good;
    EXPECT_EQ(contents(engine), whole[static_cast<size_t>(good / kBuckets)]) << good;
  }
}

/// Of ranks that are threads one ends in the middle of its step, and the other learns of it.
TEST(Buckets, ARankThatIsLostEndsTheOthers) {
  std::mutex mutex;
  std::vector<int64_t> exchanges;
  const std::string error = error_of([&] {
    ThreadWorlds(3).run([&](World& world) {
      QuadraticData data;
      if (world.rank() == 1) data.bad = 6 + 1;
      data.longest_delay_us = 300;
      data.seed = static_cast<uint64_t>(world.rank());
      QuadraticRun run = deep_run(1);
      run.world = &world;
      QuadraticEngine engine(run);
      try {
        engine.run(data);
      } catch (const RankLost&) {
        engine->salvage();
        const std::lock_guard lock(mutex);
        exchanges.push_back(engine->state().place.exchanges);
        throw;
      }
    });
  });
  EXPECT_NE(error.find("batch 7 is damaged"), std::string::npos) << error;
  EXPECT_EQ(exchanges, (std::vector<int64_t>{2, 2}));
}

}  // namespace
}  // namespace crossbow::testing
