// What is left of a synchronous run when a rank is lost.
#include <gtest/gtest.h>

#include <array>

#include "learner/quadratic.h"
#include "support/one_rank.h"

namespace crossbow::testing {
namespace {

/// The last rank that there is. Its sums are its own values, until so many are done; then another
/// rank is lost. That is noticed at once, or when so many batches have been released.
class LastRank final : public OneRank {
 public:
  explicit LastRank(Comm::Sum sums) : sums_(sums) {}
  void notice_after(int64_t batches, const QuadraticData& data) {
    batches_ = batches;
    data_ = &data;
  }

  std::unique_ptr<Comm> make_comm(std::span<const int64_t>, DType, std::function<void()>) override {
    return std::make_unique<Sums>(*this);
  }

 private:
  class Sums final : public OwnSums {
   public:
    explicit Sums(const LastRank& world) : world_(world) {}
    Sum start_sum(Queue& queue, void*, int64_t) override {
      queue.finish();
      return started_++;
    }
    State state(Sum sum) const override {
      if (sum < world_.sums_) return State::done;
      const bool unnoticed = world_.data_ && world_.data_->released < world_.batches_;
      return unnoticed ? State::running : State::failed;
    }

   private:
    const LastRank& world_;
    Sum started_ = 0;
  };

  const Comm::Sum sums_;
  int64_t batches_ = 0;
  const QuadraticData* data_ = nullptr;
};

struct Exchanging {
  std::string_view sync;
  std::optional<int64_t> period = {};
};

class Salvage : public ::testing::TestWithParam<Exchanging> {
 protected:
  static constexpr int kLearners = 2, kIterations = (kBatches + kLearners - 1) / kLearners;

  static QuadraticRun run_of(World& world) {
    return {.sync = std::string(GetParam().sync),
            .options = {.learners = kLearners,
                        .period = GetParam().period,
                        .momentum = 0.9,
                        .nesterov = GetParam().sync == "eamsgd"},
            .world = &world};
  }
  /// A learner's weights and momentum, which belong together.
  using Vectors = std::vector<std::vector<float>>;
  static Vectors vectors(QuadraticEngine& engine, int learner) {
    Vectors all;
    for (const EngineBuffer& b : engine->state().buffers) {
      using Kind = EngineBuffer::Kind;
      if (b.index != learner || (b.kind != Kind::weights && b.kind != Kind::slot)) continue;
      all.push_back(weights_at(engine->layout(), *b.device, b.data));
    }
    return all;
  }
  /// An undisturbed run of so many iterations.
  struct Whole {
    explicit Whole(int64_t iterations) {
      QuadraticData data;
      if (iterations > 0) engine->run(engine.segment(data, 0, iterations * kLearners));
    }
    int64_t exchanges() { return engine->state().place.exchanges; }

    LastRank world{kIterations};
    QuadraticEngine engine{run_of(world)};
  };
};

/// z is that of the last exchange whose sum is there. A learner's weights and momentum are those
/// after some of its steps: where exchanges overlap, as many as that exchange needed, or one or two
/// more, and if the loss is noticed late all that need not wait for the exchange that is missing;
/// else all up to that exchange, so always the same: beside passes without its own step.
TEST_P(Salvage, KeepsTheLastExchangeAndEachLearnersWeights) {
  std::vector<std::unique_ptr<Whole>> whole;
  for (int64_t i = 0; i < kIterations; ++i) whole.push_back(std::make_unique<Whole>(i));
  LastRank any(0);
  const QuadraticRun run = run_of(any);
  using Timing = SyncAlgorithm::Timing;
  const Timing timing = make_sync(run.sync, run.options)->traits().timing;
  const int64_t period = run.options.period.value_or(1);
  const int64_t exchanges = whole.back()->exchanges();
  for (int64_t good = 0; good < exchanges; ++good) {
    std::array<Vectors, kLearners> before;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      LastRank world(good);
      QuadraticEngine engine(run_of(world));
      QuadraticData data;
      data.seed = seed;
      data.longest_delay_us = 300;
      const int64_t free_steps = (good + 2) * period - 1;
      const bool late = timing == Timing::beside_step && seed % 2 == 1;
      if (late) world.notice_after(free_steps * kLearners, data);
      EXPECT_THROW(engine.run(data), RankLost);
      for (int times = 0; times < 2; ++times) engine->salvage();  // another rank is lost meanwhile
      EXPECT_EQ(engine->state().place.exchanges, good);
      EXPECT_GE(engine->samples_done(), (good * period - 1) * kLearners * kRows);
      EXPECT_LE(engine->samples_done(), kIterations * kLearners * kRows);
      EXPECT_EQ(engine->state().place.since_exchange, 0);
      const auto as_far =
          std::ranges::find_if(whole, [&](const auto& w) { return w->exchanges() == good; });
      ASSERT_NE(as_far, whole.end());
      EXPECT_EQ(engine.z(), (*as_far)->engine.z()) << good;
      if (!std::ranges::any_of(engine->state().buffers, [](const EngineBuffer& b) {
            return b.kind == EngineBuffer::Kind::weights;
          })) {
        continue;
      }
      for (int j = 0; j < kLearners; ++j) {
        const Vectors own = vectors(engine, j);
        const auto is_own = [&](const auto& w) { return vectors(w->engine, j) == own; };
        if (timing == Timing::beside_passes) {
          const auto& stopped = whole[static_cast<size_t>((good + 1) * period - 1)];
          EXPECT_EQ(own, vectors(stopped->engine, j)) << good << " learner " << j;
        } else if (timing == Timing::beside_step) {
          const auto first = late ? whole.begin() + free_steps : as_far;
          EXPECT_TRUE(std::any_of(first, whole.end(), is_own)) << good << " learner " << j;
        } else {
          Vectors& first = before[static_cast<size_t>(j)];
          if (seed > 0) {
            EXPECT_EQ(own, first) << good << " learner " << j;
          }
          EXPECT_NE(own, vectors((*as_far)->engine, j)) << good << " learner " << j;
          first = own;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sync, Salvage,
    ::testing::Values(Exchanging{"sma"}, Exchanging{"sma-delayed"}, Exchanging{"sma-delayed", 2},
                      Exchanging{"sma-paper"}, Exchanging{"sma-paper", 2}, Exchanging{"eamsgd"},
                      Exchanging{"ssgd"}, Exchanging{"local-sgd", 2}, Exchanging{"slowmo", 2},
                      Exchanging{"polyak-ruppert", 2}),
    [](const auto& test) {
      std::string name = fmt::format("{} every {}", test.param.sync, test.param.period.value_or(1));
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace crossbow::testing
