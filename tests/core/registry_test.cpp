#include "core/registry.h"

#include <gtest/gtest.h>

#include "device/host_math.h"
#include "device/sgd.h"
#include "graph/op.h"
#include "kernels/kernel.h"
#include "kernels/precision.h"
#include "models/model.h"
#include "support/error_text.h"
#include "sync/sync.h"

namespace crossbow {
namespace {

TEST(Registry, KeepsNamesInOrderAndFindsByName) {
  Registry<int> registry("number");
  const int& two = registry.add("two", 2);
  registry.add("one", 1);
  registry.add("three", 3);
  EXPECT_EQ(registry.find("two"), &two);
  EXPECT_EQ(registry.find("four"), nullptr);
  EXPECT_EQ(registry.names(), (std::vector<std::string_view>{"one", "three", "two"}));
}

TEST(Registry, RefusesASecondEntryOfTheNameAndKeepsTheFirst) {
  Registry<int> registry("number");
  registry.add("one", 1);
  EXPECT_EQ(testing::error_of([&] { registry.add("one", 2); }),
            "the number 'one' is registered twice");
  EXPECT_EQ(*registry.find("one"), 1);
}

/// Each kind of thing, under a name that it has already.
TEST(Registry, NothingIsRegisteredTwice) {
  using testing::error_of;
  EXPECT_EQ(error_of([] { register_op({.name = "relu"}); }), "the op 'relu' is registered twice");
  EXPECT_EQ(error_of([] { RegisterModel(find_model("lenet")); }),
            "the model 'lenet' is registered twice");
  EXPECT_EQ(error_of([] {
              RegisterSync({"sma", "", {}, nullptr});
            }),
            "the synchronisation algorithm 'sma' is registered twice");
  EXPECT_EQ(error_of([] { RegisterKernel("cpu", "relu", nullptr); }),
            "the cpu kernel 'relu' is registered twice");
  EXPECT_EQ(error_of([] { KernelRegistry::of("cpu").set_reorder(nullptr); }),
            "a reorder is registered twice for one device");
  EXPECT_EQ(error_of([] { RegisterVectorMath("cpu", DType::f32, vector_math("cpu", DType::f32)); }),
            "the vector math 'cpu in f32' is registered twice");
  EXPECT_EQ(error_of([] { RegisterUpdate(kSgd, "cpu", DType::f32, nullptr); }),
            "the loop of cpu for sgd in f32 is registered twice");
  EXPECT_EQ(error_of([] { RegisterBf16("cpu", nullptr); }),
            "the test for bf16 of the device 'cpu' is registered twice");
}

}  // namespace
}  // namespace crossbow
