#include "device/vector_math.h"

#include <gtest/gtest.h>

#include <vector>

#include "device/buffer.h"

namespace crossbow {
namespace {

/// A few terms are a training step's; as many as there are batches in an epoch are asked for when
/// batch norm is measured on all of them.
TEST(VectorMath, CombinesAnyNumberOfTermsInOrder) {
  constexpr int64_t kElements = 100;
  for (const size_t count : {1u, 3u, 256u, 257u, 1000u}) {
    std::vector<double> factors(count);
    std::vector<Buffer> buffers;
    std::vector<const void*> terms;
    for (size_t t = 0; t < count; ++t) {
      factors[t] = 1.0 / static_cast<double>(t + 1);
      float* values = buffers.emplace_back(kElements * sizeof(float)).as<float>();
      for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i) + 0.1f * t;
      terms.push_back(values);
    }
    Buffer cpu(kElements * sizeof(float)), ref(kElements * sizeof(float));
    vector_math("cpu", DType::f32).combine(factors, terms, cpu.data(), kElements);
    vector_math("ref", DType::f32).combine(factors, terms, ref.data(), kElements);
    for (int64_t i = 0; i < kElements; ++i) {
      EXPECT_FLOAT_EQ(cpu.as<float>()[i], ref.as<float>()[i]) << count;
    }
  }
}

}  // namespace
}  // namespace crossbow
