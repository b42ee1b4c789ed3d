// Ranks whose models are not the same to the bit.
#include <gtest/gtest.h>

#include "comm/thread_world.h"
#include "core/error.h"
#include "train/cluster.h"

namespace crossbow {
namespace {

ParameterLayout layout_of(int64_t elements) {
  ParameterLayout layout;
  layout.add_parameter("weight", Layout::plain({elements}, DType::f32), {});
  layout.add_state("mean", Layout::plain({4}, DType::f32), 0);
  return layout;
}

/// What all of three ranks say, of which the last one has changed its model.
std::string said(int64_t elements, const std::function<void(Replica&)>& change) {
  std::string first;
  ThreadWorlds(3).run([&](World& world) {
    const bool is_last = world.rank() == 2;
    const ParameterLayout layout = layout_of(is_last ? elements : 20);
    Replica model(layout, /*with_gradients=*/false);
    if (is_last) change(model);
    std::string own;
    try {
      expect_same_model(layout, model);
    } catch (const Error& e) {
      own = e.what();
    }
    EXPECT_EQ(agreed(own), own) << world.rank();
    if (world.rank() == 0) first = own;
  });
  return first;
}

TEST(SameModel, IsAskedOfAllRanks) {
  const auto nothing = [](Replica&) {};
  EXPECT_EQ(said(20, nothing), "");
  const std::string differs = "(rank 2) are no longer the same";
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, differs,
                      said(20, [](Replica& model) { model.parameters.data()[79] = std::byte{1}; }));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, differs,
                      said(20, [](Replica& model) { model.states.data()[0] = std::byte{1}; }));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "laid out in different ways", said(200, nothing));
}

}  // namespace
}  // namespace crossbow
