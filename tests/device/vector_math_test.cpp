#include "device/vector_math.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/buffer.h"
#include "device/sgd.h"

namespace crossbow {
namespace {

/// A few terms are a training step's; as many as there are batches in an epoch are asked for when
/// batch norm is measured on all of them.
TEST(VectorMath, CombinesAnyNumberOfTermsInOrder) {
  constexpr int64_t kElements = 100;
  for (const size_t count : {1u, 3u, 9u, 256u, 257u, 2500u}) {
    std::vector<double> factors(count);
    std::vector<Buffer> buffers;
    std::vector<const void*> terms;
    for (size_t t = 0; t < count; ++t) {
      factors[t] = 1.0 / static_cast<double>(t + 1);
      float* values = buffers.emplace_back(kElements * sizeof(float)).as<float>();
      for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i) + 0.1f * t;
      terms.push_back(values);
    }
    Buffer out(kElements * sizeof(float)), ref(kElements * sizeof(float));
    vector_math("ref", DType::f32).combine(factors, terms, ref.data(), kElements);
    for (const char* device : {"cpu", "fibres"}) {
      vector_math(device, DType::f32).combine(factors, terms, out.data(), kElements);
      for (int64_t i = 0; i < kElements; ++i) {
        EXPECT_FLOAT_EQ(out.as<float>()[i], ref.as<float>()[i]) << device << ", " << count;
      }
    }
  }
}

class Vector {
 public:
  explicit Vector(float first) : buffer_(kElements * sizeof(float)) {
    for (int64_t i = 0; i < kElements; ++i) data()[i] = first + 0.01f * static_cast<float>(i % 37);
  }
  float* data() const { return buffer_.as<float>(); }
  void expect_near(const Vector& other) const {
    for (int64_t i = 0; i < kElements; ++i) EXPECT_NEAR(data()[i], other.data()[i], 1e-6);
  }
  static constexpr int64_t kElements = 1000;

 private:
  Buffer buffer_;
};

/// On every device as on the reference: with and without momentum, Nesterov's step, decay, clipping
/// and a pull.
TEST(VectorMath, UpdatesAsTheReferenceDoes) {
  for (const char* device : {"cpu", "fibres", "fibres queue"}) {
    for (int set = 0; set < 32; ++set) {
      SCOPED_TRACE(std::string(device) + " " + std::to_string(set));
      const bool momentum = set & 1, nesterov = set & 2, pulled = set & 4, clipped = set & 8;
      const Optimizer sgd =
          make_sgd({momentum ? 0.9 : 0, set & 16 ? 0.01 : 0, momentum && nesterov});
      const double scale = 0.5;
      const auto run = [&](const char* on, const Vector& v, const Vector& next) {
        const Vector w(0.3f), g(-0.2f), z(0.1f);
        vector_math(on, DType::f32)
            .update(*sgd.rule, sgd.at(0.1, pulled ? 0.25 : 0),
                    {w.data(),
                     g.data(),
                     {momentum ? v.data() : nullptr},
                     z.data(),
                     next.data(),
                     clipped ? &scale : nullptr},
                    Vector::kElements);
      };
      const Vector v(0.4f), next(0), expected_v(0.4f), expected(0);
      run(device, v, next);
      run("ref", expected_v, expected);
      next.expect_near(expected);
      v.expect_near(expected_v);
    }
  }
}

TEST(VectorMath, NormsAndClippingAreTheReferences) {
  const Vector x(-0.1f);
  for (const char* device : {"cpu", "fibres"}) {
    for (const int64_t n : {int64_t{1}, int64_t{999}, Vector::kElements}) {
      double sums[2]{}, expected = 0, scale = 0;
      vector_math("ref", DType::f32).squared_norm(x.data(), n, &expected);
      for (double& sum : sums) vector_math(device, DType::f32).squared_norm(x.data(), n, &sum);
      EXPECT_NEAR(sums[0], expected, 1e-9 * expected) << device;
      EXPECT_EQ(sums[0], sums[1]);
      for (const double limit : {0.01, 1e6}) {
        vector_math(device, DType::f32).find_clip_scale(limit, sums, 2, &scale);
        EXPECT_DOUBLE_EQ(scale, clip_scale(limit, sums)) << device;
      }
    }
  }
}

}  // namespace
}  // namespace crossbow
