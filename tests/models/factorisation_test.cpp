#include <gtest/gtest.h>

#include "models/model.h"
#include "plan/compiled_model.h"
#include "plan/row_major.h"
#include "support/error_text.h"

namespace crossbow::testing {
namespace {

/// Of two ratings, by three users of two items.
class Factorisation : public ::testing::Test {
 protected:
  static ModelSpec spec() {
    ModelSpec spec = find_model("factorisation").default_spec(2);
    spec.image = {5};
    spec.groups = {3, 2};
    spec.options = {{"rank", "2"}, {"decay", "0"}};
    return spec;
  }

  std::optional<Replica> replica_;
  std::optional<Workspace> workspace_;
};

TEST_F(Factorisation, AddsBiasesAndTheProductOfFactors) {
  const std::vector<float> values{1, 1, 1, 1}, labels{4, 2};
  const std::vector<int32_t> columns{2, 3, 0, 4}, extents{0, 2, 2, 4};
  Step step;
  step.inputs = {nullptr, labels.data(), values.data(), columns.data(), extents.data()};
  for (const char* device : {"cpu", "ref"}) {
    CompileOptions options;
    options.device = device;
    CompiledModel model(build_model("factorisation", spec()), options);
    const auto program = model.evaluation(2);
    replica_.emplace(*model.parameters(), /*with_gradients=*/false);
    const auto set = [&](const std::string& name, std::vector<float> row_major) {
      const auto* const slot = model.parameters()->find(name);
      ASSERT_TRUE(slot) << name;
      write_tensor(slot->layout, replica_->parameters.as<float>() + slot->offset,
                   std::span<const float>(row_major));
    };
    set("bias", {3});
    set("user_bias.weight", {0.1f, 0.2f, 0.3f});
    set("item_bias.weight", {-0.5f, 0.5f});
    set("user_factors.weight", {1, 2, 3, 10, 20, 30});  // [rank, users]
    set("item_factors.weight", {4, 5, 0.1f, 0.2f});
    workspace_.emplace(model.make_workspace(find_device(device)));
    const Execution ran(program, *replica_, *workspace_);
    ran.run(step);
    const std::vector<double> ratings = ran.values("logits");
    EXPECT_NEAR(ratings[0], 3 + 0.3 - 0.5 + 3 * 4 + 30 * 0.1, 1e-5) << device;
    EXPECT_NEAR(ratings[1], 3 + 0.1 + 0.5 + 1 * 5 + 10 * 0.2, 1e-5) << device;
    const double a = ratings[0] - 4, b = ratings[1] - 2;
    EXPECT_NEAR(ran.scalar("loss"), (a * a + b * b) / 2, 1e-4) << device;
  }
}

TEST_F(Factorisation, WantsRatingsAndTheirLoss) {
  ModelSpec pictures{.image = {1, 4, 4}};
  EXPECT_NE(error_of([&] {
              build_model("factorisation", pictures);
            }).find("choose data such as ratings:FILE or like-movielens"),
            std::string::npos);
  ModelSpec classes = spec();
  classes.loss = CrossEntropyLoss{};
  EXPECT_EQ(error_of([&] { build_model("factorisation", classes); }),
            "`loss`: what is learnt of each sample is a number, not a class; choose mse");
  ModelSpec odd = spec();
  odd.options = {{"decay", "x"}};
  EXPECT_EQ(error_of([&] { build_model("factorisation", odd); }),
            "the option 'decay' of the model 'factorisation' must be a number from 0 to 1000000, "
            "not 'x'");
}

}  // namespace
}  // namespace crossbow::testing
