#include "learner/auto_tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "core/rng.h"

namespace crossbow {
namespace {

using Verdict = AutoTuner::Verdict;

/// Images a second with that many learners, in the n-th window.
using Machine = std::function<double(int learners, int n)>;

/// Lets the tuner have windows until it settles; the number that it took.
int settle(AutoTuner& tuner, const Machine& machine, int most = 1000) {
  for (int n = 0; n < most; ++n) {
    if (tuner.add(machine(tuner.current().learners, n)) == Verdict::settled) return n + 1;
  }
  ADD_FAILURE() << "it never settles";
  return most;
}

/// Normal noise of that relative size, the same at every run.
double noisy(double rate, double size, int n) {
  Rng rng(7, Purpose::synthetic, 0, static_cast<uint64_t>(n));
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += rng.uniform(-0.5f, 0.5f);
  return rate * (1 + size * sum);
}

int found(const Machine& machine, bool watch = false) {
  AutoTuner tuner(arrangements(8, 1), watch);
  settle(tuner, machine);
  EXPECT_EQ(tuner.current(), tuner.best().arrangement);
  return tuner.current().learners;
}

TEST(AutoTuner, ClimbsToAPeak) {
  const double rates[] = {0, 100, 190, 260, 255, 240, 220, 200, 180};
  EXPECT_EQ(found([&](int k, int) { return rates[k]; }), 3);
  for (int seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(found([&](int k, int n) { return noisy(rates[k], 0.04, n + 1000 * seed); }), 3);
  }
}

TEST(AutoTuner, ClimbsToTheTop) {
  EXPECT_EQ(found([](int k, int) { return 100.0 * k; }), 8);
}

TEST(AutoTuner, FlatOrFallingMeansOneLearner) {
  for (int seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(found([&](int, int n) { return noisy(100, 0.03, n + 1000 * seed); }), 1) << seed;
  }
  EXPECT_EQ(found([](int k, int n) { return noisy(100.0 / k, 0.03, n); }), 1);
}

/// One window may be anything.
TEST(AutoTuner, AnOutlierDecidesNothing) {
  const double rates[] = {0, 100, 190, 260, 255, 240, 220, 200, 180};
  for (int outlier = 0; outlier < 40; ++outlier) {
    for (const double factor : {0.05, 20.0}) {
      EXPECT_EQ(found([&](int k, int n) {
                  return noisy(rates[k], 0.02, n) * (n == outlier ? factor : 1);
                }),
                3)
          << outlier << ' ' << factor;
    }
  }
}

TEST(AutoTuner, ADipIsClimbedOver) {
  const double rates[] = {0, 100, 95, 150, 150, 150, 150, 150, 150};
  EXPECT_EQ(found([&](int k, int) { return rates[k]; }), 3);
}

TEST(AutoTuner, ScatterAsksForMoreWindows) {
  AutoTuner calm(arrangements(2, 1), false), wild(arrangements(2, 1), false);
  const int few = settle(calm, [](int, int n) { return noisy(100, 0.001, n); });
  const int many = settle(wild, [](int, int n) { return noisy(100, 0.2, n); });
  EXPECT_GT(many, 2 * few);
}

TEST(AutoTuner, AHopelessTrialIsShort) {
  AutoTuner tuner(arrangements(3, 1), false);
  const auto machine = [](int k, int n) { return k == 1 ? 100.0 : 30.0 + n % 2; };
  EXPECT_LT(settle(tuner, machine), 22);
  EXPECT_EQ(tuner.current().learners, 1);
  EXPECT_NEAR(tuner.trials()[1].rate, 30.5, 0.25);
  EXPECT_NEAR(tuner.trials()[1].error, 0.011, 0.001);  // of three windows: 1/√3 / √3 of 30.5
}

TEST(AutoTuner, SettledItListensNoMore) {
  AutoTuner tuner(arrangements(4, 1), false);
  settle(tuner, [](int k, int) { return 100.0 * k; });
  EXPECT_FALSE(tuner.listening());
  for (int n = 0; n < 100; ++n) EXPECT_EQ(tuner.add(1), Verdict::go_on);
  EXPECT_EQ(tuner.current().learners, 4);
}

TEST(AutoTuner, WatchingItSearchesAgainWhenTheMachineChanges) {
  AutoTuner tuner(arrangements(4, 1), true);
  settle(tuner, [](int k, int) { return 100.0 * k; });
  EXPECT_EQ(tuner.current().learners, 4);
  for (int n = 0; n < 100; ++n) EXPECT_EQ(tuner.add(noisy(400, 0.02, n)), Verdict::go_on);
  // Two cores are gone: from now on two learners are best.
  const auto slower = [](int k) { return k <= 2 ? 100.0 * k : 200.0 - 30 * k; };
  int n = 0;
  while (tuner.add(slower(tuner.current().learners)) != Verdict::searching_again) {
    ASSERT_LT(++n, 100);
  }
  settle(tuner, [&](int k, int) { return slower(k); });
  EXPECT_EQ(tuner.current().learners, 2);
}

TEST(AutoTuner, ALimitEndsTheLadder) {
  AutoTuner tuner(arrangements(8, 1), false);
  tuner.limit(5);
  settle(tuner, [](int k, int) { return 100.0 * k; });
  EXPECT_EQ(tuner.current().learners, 5);
}

TEST(AutoTuner, WhatItKnewIsCheckedOnce) {
  const AutoTuner::Trial known{{3, 1}, 300};
  AutoTuner right(arrangements(4, 1), known);
  EXPECT_TRUE(right.settled());
  EXPECT_EQ(right.current().learners, 3);
  for (int n = 0; n < 100; ++n) EXPECT_EQ(right.add(noisy(310, 0.02, n)), Verdict::go_on);
  EXPECT_FALSE(right.listening());
  // Other programs are running for a while.
  AutoTuner disturbed(arrangements(4, 1), known);
  for (int n = 0; n < 100; ++n) EXPECT_EQ(disturbed.add(n < 12 ? 150 : 300), Verdict::go_on);
  EXPECT_FALSE(disturbed.listening());
  // The earlier search was disturbed.
  AutoTuner wrong(arrangements(4, 1), known);
  int n = 0;
  while (wrong.add(600) != Verdict::searching_again) ASSERT_LT(++n, 100);
  settle(wrong, [](int k, int) { return k == 4 ? 800 : 200.0 * k; });
  EXPECT_EQ(wrong.current().learners, 4);
}

/// Of k learners' images the share (φ + 16) / (φ + 16 k) counts.
AutoTuner::Goal goodput(const double& noise_scale) {
  return {0.05, [&noise_scale](const Arrangement& a) {
            return (noise_scale + 16) / (noise_scale + 16.0 * a.learners);
          }};
}

/// Until it is at so many learners.
void climb(AutoTuner& tuner, int learners, const std::map<int, double>& rates) {
  while (tuner.current().learners != learners) tuner.add(rates.at(tuner.current().learners));
}

TEST(AutoTuner, WhatCannotBeHadIsNotTriedAgain) {
  double noise_scale = 100;
  AutoTuner tuner(arrangements(8, 1), false);
  tuner.aim(goodput(noise_scale));
  climb(tuner, 4, {{1, 100}, {2, 180}, {3, 150}});
  tuner.refuse();
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.current().learners, 2);
  noise_scale = 1e9;  // with which four would be worth a trial
  tuner.reconsider();
  EXPECT_EQ(tuner.current().learners, 2);

  AutoTuner tie(arrangements(8, 1), false);
  climb(tie, 3, {{1, 100}, {2, 101}});
  tie.refuse();
  EXPECT_EQ(tie.current().learners, 1);
}

TEST(AutoTuner, WhatWasTriedAndCannotBeHadAnyMoreIsForgotten) {
  double noise_scale = 10;
  AutoTuner tuner(arrangements(3, 1), false);
  tuner.aim(goodput(noise_scale));
  settle(tuner, [](int k, int) { return 90.0 + 10 * k; });
  EXPECT_EQ(tuner.current().learners, 1);
  noise_scale = 1e9;
  tuner.reconsider();
  EXPECT_EQ(tuner.current().learners, 3);
  tuner.refuse();
  EXPECT_EQ(tuner.current().learners, 2);
  EXPECT_EQ(tuner.trials().size(), 2u);
}

TEST(AutoTuner, ALimitIsNoRungToGoOnTo) {
  const double noise_scale = 500;
  AutoTuner tuner(arrangements(8, {}), AutoTuner::Trial{{4, 2}, 400}, /*check=*/false);
  tuner.aim(goodput(noise_scale));
  tuner.reconsider();  // notes the share of eight
  tuner.limit(4);
  tuner.reconsider();
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.current(), (Arrangement{4, 2}));
}

TEST(AutoTuner, OnlyImagesThatCountAreWorthMoreLearners) {
  // With φ = 16 half again as many images of two learners are worth as many as one learner's: 2/3.
  double noise_scale = 16;
  AutoTuner tuner(arrangements(4, 1), false);
  tuner.aim(goodput(noise_scale));
  settle(tuner, [](int k, int) { return 100 + 50.0 * (k - 1); });
  EXPECT_EQ(tuner.current().learners, 1);
  AutoTuner fast(arrangements(4, 1), false);
  fast.aim(goodput(noise_scale));
  settle(fast, [](int k, int) { return 100.0 * k; });  // 100, 133, 150, 160
  EXPECT_EQ(fast.current().learners, 4);
}

TEST(AutoTuner, TwoPerCentMoreImagesAreNotWorthASecondLearner) {
  double noise_scale = 1e9;
  AutoTuner tuner(arrangements(2, 1), false);
  tuner.aim(goodput(noise_scale));
  settle(tuner, [](int k, int) { return k == 1 ? 100.0 : 102.5; });
  EXPECT_EQ(tuner.current().learners, 1);
}

TEST(AutoTuner, AddsLearnersAsTheNoiseGrows) {
  double noise_scale = 16;
  const auto machine = [](int k, int) { return 100 + 40.0 * (k - 1); };
  AutoTuner tuner(arrangements(8, 1), false);
  tuner.aim(goodput(noise_scale));
  settle(tuner, machine);  // looks at two and three
  EXPECT_EQ(tuner.current().learners, 1);
  tuner.reconsider();
  EXPECT_EQ(tuner.current().learners, 1);
  noise_scale = 1600;
  tuner.reconsider();
  EXPECT_FALSE(tuner.settled());
  EXPECT_EQ(tuner.current().learners, 4);
  settle(tuner, machine);
  EXPECT_EQ(tuner.current().learners, 8);
  noise_scale = 16;
  tuner.reconsider();
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(tuner.current().learners, 1);
}

TEST(AutoTuner, AddsLearnersToThoseThatItKnewAsTheNoiseGrows) {
  double noise_scale = 0;  // not known yet
  AutoTuner tuner(arrangements(8, 1), AutoTuner::Trial{{2, 1}, 140});
  tuner.aim({0.05, [&](const Arrangement& a) {
               return noise_scale == 0 ? 1 : goodput(noise_scale).share(a);
             }});
  for (const double noise : {0, 16, 16}) {
    noise_scale = noise;
    tuner.reconsider();
    EXPECT_EQ(tuner.current().learners, 2) << noise;
  }
  noise_scale = 1600;
  tuner.reconsider();
  EXPECT_EQ(tuner.current().learners, 3);
}

/// That k learners need, of one's, as measured (docs/learning.md): up to eight need as many,
/// sixteen `at_16` times as many.
double epochs(int k, double at_16) {
  return k <= 8 ? 1 : 1 + (at_16 - 1) * (k - 8) / 8;
}

/// On machines that nobody has here, k learners being `speed(k)` times as fast as one, with a noise
/// scale of 8,000 images.
TEST(AutoTuner, PicksWhatTheMeasuredEpochsMakeBest) {
  const double noise_scale = 8000;
  for (const int cores : {8, 16, 64}) {
    for (int step = 0; step <= 140; ++step) {
      const double top = 1 + 0.05 * step;
      const double power = std::log(top) / std::log(std::min(cores, 16));
      const std::function<double(int)> curves[] = {
          [&](int k) { return std::pow(k, power); },        // each learner gains less
          [&](int k) { return std::min<double>(k, top); },  // until the memory is the limit
          [&](int k) { return std::min<double>(k, top) / (1 + 0.02 * k); },  // and then falls
      };
      for (size_t curve = 0; curve < std::size(curves); ++curve) {
        const auto& speed = curves[curve];
        AutoTuner tuner(arrangements(cores, {}), false);
        tuner.aim(goodput(noise_scale));
        tuner.limit(16);
        settle(tuner, [&](int k, int n) { return noisy(100 * speed(k), 0.02, n); });
        const int chosen = tuner.current().learners;
        for (const double at_16 : {1.0, 6.0 / 5}) {  // lenet's, resnet-20's
          const auto seconds = [&](int k) { return epochs(k, at_16) / speed(k); };
          double best = seconds(1);
          for (int k = 2; k <= std::min(cores, 16); ++k) best = std::min(best, seconds(k));
          EXPECT_GE(best / seconds(chosen), step % 10 == 0 ? 0.9 : 0.87)
              << cores << " cores, up to " << top << ", curve " << curve << ": " << chosen
              << " learners, where 16 need " << at_16 << " times the epochs of one";
        }
      }
    }
  }
}

TEST(Arrangements, ShareOutTheCores) {
  using A = Arrangement;
  EXPECT_EQ(arrangements(1, {}), (std::vector<A>{{1, 1}}));
  EXPECT_EQ(arrangements(2, {}), (std::vector<A>{{1, 2}, {2, 1}}));
  EXPECT_EQ(arrangements(8, {}), (std::vector<A>{{1, 8}, {2, 4}, {4, 2}, {8, 1}}));
  EXPECT_EQ(arrangements(7, {}), (std::vector<A>{{1, 7}, {2, 3}, {3, 2}, {7, 1}}));
  EXPECT_EQ(arrangements(5, 2), (std::vector<A>{{1, 2}, {2, 2}}));
  EXPECT_EQ(arrangements(2, 4), (std::vector<A>{{1, 4}}));
}

}  // namespace
}  // namespace crossbow
