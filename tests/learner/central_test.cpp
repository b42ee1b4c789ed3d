#include "learner/central.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "comm/local.h"
#include "learner/quadratic.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

/// Whether it is lost before this rank's part of the sum, or while the sum waits for its part.
void lose_a_rank(bool beforehand) {
  CompiledModel model(regression(0), {});
  model.training(kRows);
  const ParameterLayout& layout = *model.parameters();
  Device& device = find_device("cpu", 0);
  Scheduler scheduler(1, 1, 1);
  const std::array buckets{layout.whole()};
  LocalGroup group({&device, &find_device("cpu", 1)}, std::array{layout.parameter_elements},
                   layout.dtype, [&] { scheduler.notify(); });
  Lockstep lockstep(Lockstep::Timing::after_step);
  NoiseScale noise;
  Central central(make_sync("sma", {.learners = 2}), lockstep, layout, make_sgd(), 0,
                  {device, 0, &group.rank(0), buckets}, 1, noise);
  const Buffer weights(static_cast<size_t>(layout.parameter_elements) * sizeof(float));
  const auto made = device.make_event();
  const auto queue = device.make_queue();
  queue->mark(*made);

  lockstep.start(1);
  scheduler.start(1, [] { return false; });
  central.start([&](int64_t, ExchangeInput& input) {
    input.terms[0] = input.weights[0] = weights.data();
    input.made[0] = made.get();
    input.factors[0] = 0.5;
  });
  scheduler.finish(*scheduler.claim(0));
  Central::Scratch scratch(central, 1);
  if (beforehand) group.lose(1, "host b is gone");
  std::thread loses([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!beforehand) group.lose(1, "host b is gone");
  });
  const std::string said = error_of([&] { central.complete(1, scheduler, scratch, *queue); });
  EXPECT_NE(said.find("host b is gone"), std::string::npos) << said;
  loses.join();
}

TEST(Central, SaysThatARankWasLostBefore) {
  lose_a_rank(true);
}
TEST(Central, SaysThatARankIsLostWhileItWaits) {
  lose_a_rank(false);
}

}  // namespace
}  // namespace crossbow::testing
