// The vector loops of each instruction set that this machine has against scalar formulas in double.
#include "kernels/loops.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "ops/dropout.h"

namespace crossbow {
namespace {

const int64_t kSizes[] = {1, 3, 15, 16, 17, 33, 64, 131, 1200};

/// Whatever a rest has beside it.
TEST_P(LoopsTest, HogwildStepsHaveTheSameBitsAlone) {
  const auto g = random_values<float>(16, 1), w = random_values<float>(16, 2);
  const auto shared = random_values<float>(16, 3);
  const auto stepped = [&](const std::vector<float>& weights, float decay, int64_t n) {
    std::vector<float> to = shared;
    loops_->hogwild_step({.lr = 0.1f, .weight_decay = decay, .gradient_scale = 0.7f},
                         {weights.data(), g.data(), to.data(), nullptr, false}, 0, n);
    to.resize(10);
    return to;
  };
  EXPECT_EQ(stepped(w, 0.3f, 10), stepped(w, 0.3f, 16));
  const std::vector<float> stale(16, NAN);
  EXPECT_EQ(stepped(stale, 0, 10), stepped(w, 0, 16));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, LoopsTest, instruction_sets(), instruction_set);

TEST_P(LoopsTest, NamesItself) {
  EXPECT_STREQ(loops_->name, GetParam());
}

double gelu(double x) {
  return x * std::erfc(-x / std::sqrt(2.0)) / 2;
}
double gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double derivative(double (*f)(double), double x) {
  return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
}
/// Far below zero gelu(x) is about e^(−x²/2), whose exponent is rounded to f32.
constexpr double kGeluSlack = 64;

TEST_P(LoopsTest, UnaryMatchesItsFormula) {
  for_types([&](auto t) {
    using T = decltype(t);
    const auto check = [&](typename TypedLoops<T>::Unary loop, double (*f)(double),
                           double slack = 8) {
      for (int64_t n : kSizes) {
        const auto x = random_values<T>(n, 1, -6, 6);
        std::vector<T> y(n + 1, stored<T>(42));
        loop(x.data(), y.data(), n);
        for (int64_t i = 0; i < n; ++i) expect_close(y[i], f(to_float(x[i])), slack);
        EXPECT_EQ(to_float(y[n]), 42) << "wrote past the end";
      }
    };
    check(typed<T>().relu, [](double x) { return std::max(x, 0.0); });
    check(typed<T>().sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); });
    check(typed<T>().tanh, [](double x) { return std::tanh(x); });
    check(typed<T>().gelu, gelu, kGeluSlack);
    check(typed<T>().gelu_tanh, gelu_tanh, kGeluSlack);
  });
}

TEST_P(LoopsTest, BinaryMatchesItsFormula) {
  for_types([&](auto t) {
    using T = decltype(t);
    const auto check = [&](typename TypedLoops<T>::Binary loop, double (*f)(double, double)) {
      for (int64_t n : kSizes) {
        const auto a = random_values<T>(n, 1), b = random_values<T>(n, 2);
        std::vector<T> y = a;
        y.push_back(stored<T>(42));
        loop(y.data(), b.data(), y.data(), n);  // in place
        for (int64_t i = 0; i < n; ++i) {
          // Relative to the terms: sums cancel.
          const double expected = f(to_float(a[i]), to_float(b[i]));
          EXPECT_NEAR(to_float(y[i]), expected, 1.01 * kUnit<T> * std::abs(expected) + 4e-6);
        }
        EXPECT_EQ(to_float(y[n]), 42) << "wrote past the end";
      }
    };
    check(typed<T>().add, [](double a, double b) { return a + b; });
    check(typed<T>().add_relu, [](double a, double b) { return std::max(a + b, 0.0); });
    check(typed<T>().multiply, [](double a, double b) { return a * b; });
    check(typed<T>().relu_grad, [](double dy, double y) { return y > 0 ? dy : 0; });
    check(typed<T>().sigmoid_grad, [](double dy, double y) { return dy * y * (1 - y); });
    check(typed<T>().tanh_grad, [](double dy, double y) { return dy * (1 - y * y); });
    check(typed<T>().gelu_grad, [](double dy, double x) { return dy * derivative(gelu, x); });
    check(typed<T>().gelu_tanh_grad,
          [](double dy, double x) { return dy * derivative(gelu_tanh, x); });
  });
}

TEST_P(LoopsTest, Relu6StopsAtSix) {
  for_types([&](auto t) {
    using T = decltype(t);
    for (int64_t n : kSizes) {
      const auto x = random_values<T>(n, 1, -9, 9), dy = random_values<T>(n, 2);
      std::vector<T> y(n), dx(n);
      typed<T>().relu6(x.data(), y.data(), n);
      typed<T>().relu6_grad(dy.data(), y.data(), dx.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const float value = to_float(x[i]);
        EXPECT_EQ(to_float(y[i]), std::clamp(value, 0.0f, 6.0f));
        EXPECT_EQ(to_float(dx[i]), value > 0 && value < 6 ? to_float(dy[i]) : 0);
      }
    }
  });
}

TEST_P(LoopsTest, ActivationsAreAccurateEverywhere) {
  std::vector<float> x;
  for (double v = 1e-30; v < 200; v *= 1.003) x.insert(x.end(), {float(v), float(-v)});
  std::vector<float> s(x.size()), t(x.size());
  typed<float>().sigmoid(x.data(), s.data(), static_cast<int64_t>(x.size()));
  typed<float>().tanh(x.data(), t.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    // Below the smallest normal number e^-x is taken as 0.
    if (x[i] > -87)
      expect_close(s[i], 1 / (1 + std::exp(-double{x[i]})), 4);
    else
      EXPECT_LE(s[i], 2e-38);
    expect_close(t[i], std::tanh(double{x[i]}), 4);
  }
}

TEST_P(LoopsTest, GeluIsAccurateEverywhere) {
  std::vector<float> x;
  for (double v = 1e-30; v < 200; v *= 1.003) x.insert(x.end(), {float(v), float(-v)});
  const std::vector<float> one(x.size(), 1);
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size()), dx(x.size());
  const auto check = [&](TypedLoops<float>::Unary loop, TypedLoops<float>::Binary grad,
                         double (*f)(double)) {
    loop(x.data(), y.data(), n);
    grad(one.data(), x.data(), dx.data(), n);
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      // Relative to x, as PyTorch's; down to −6 to the value itself, which a sum with 1 would lose.
      EXPECT_NEAR(y[i], f(v), 4 * 0x1p-24 * std::abs(v)) << v;
      if (v > -6) expect_close(y[i], f(v), kGeluSlack);
      EXPECT_NEAR(dx[i], derivative(f, v), 2e-6) << v;
    }
  };
  check(typed<float>().gelu, typed<float>().gelu_grad, gelu);
  check(typed<float>().gelu_tanh, typed<float>().gelu_tanh_grad, gelu_tanh);
}

TEST_P(LoopsTest, NotANumberGoesThrough) {
  for_types([&](auto t) {
    using T = decltype(t);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<T> x(20, stored<T>(nan)), one(20, stored<T>(1));
    std::vector<T> y(20);
    const auto& l = typed<T>();
    for (const auto loop : {l.relu, l.relu6, l.sigmoid, l.tanh, l.gelu, l.gelu_tanh}) {
      loop(x.data(), y.data(), 20);
      for (T v : y) EXPECT_TRUE(std::isnan(to_float(v)));
    }
    for (const auto loop : {l.add, l.add_relu, l.multiply, l.gelu_grad, l.gelu_tanh_grad}) {
      loop(one.data(), x.data(), y.data(), 20);
      for (T v : y) EXPECT_TRUE(std::isnan(to_float(v)));
    }
  });
}

TEST_P(LoopsTest, ActivationsSaturate) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-infinity, -1e30f, 1e30f, infinity};
  std::vector<float> y(4);
  typed<float>().sigmoid(x.data(), y.data(), 4);
  EXPECT_EQ(y, (std::vector<float>{0, 0, 1, 1}));
  typed<float>().tanh(x.data(), y.data(), 4);
  EXPECT_EQ(y, (std::vector<float>{-1, -1, 1, 1}));
  const std::vector<float> far = {-1e30f, -100, 100, 1e30f}, one(4, 1);
  const TypedLoops<float>& l = typed<float>();
  for (const auto loop : {l.gelu, l.gelu_tanh}) {
    loop(far.data(), y.data(), 4);
    EXPECT_EQ(y, (std::vector<float>{0, 0, 100, 1e30f}));
  }
  for (const auto loop : {l.gelu_grad, l.gelu_tanh_grad}) {
    loop(one.data(), far.data(), y.data(), 4);
    EXPECT_EQ(y, (std::vector<float>{0, 0, 1, 1}));
  }
}

TEST_P(LoopsTest, Bf16IsRoundedToNearestEven) {
  std::vector<Bf16> a, b;
  for (float scale : {1.0f, -3.7f, 1e-20f, 2e30f}) {
    for (int i = 0; i < 600; ++i) {
      a.push_back(bf16(scale * (1 + static_cast<float>(i) / 128)).bits);
      b.push_back(bf16(scale * static_cast<float>(i % 37) / 1024).bits);
    }
  }
  std::vector<Bf16> y(a.size());
  typed<Bf16>().add(a.data(), b.data(), y.data(), static_cast<int64_t>(a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(y[i], bf16(to_float(a[i]) + to_float(b[i])).bits) << i;
  }
}

TEST_P(LoopsTest, DropoutFollowsItsDefinition) {
  const DropoutKey key{0x123456789ABCDEFull, 3, 2};
  const uint64_t sample = 0x1234567890ull;
  const auto philox_key = Rng::key(key.seed, Purpose::dropout);
  for (int64_t n : kSizes) {
    DropoutArgs args{};
    args.first_quad = 5;
    args.counter[0] = key.epoch;
    args.counter[1] = static_cast<uint32_t>(sample);
    args.counter[2] = static_cast<uint32_t>(sample >> 32) | key.layer << 16;
    args.key[0] = philox_key[0];
    args.key[1] = philox_key[1];
    args.threshold = 0x60000000;
    args.scale = 1.6f;
    const auto x = random_values<float>(n, 1), dy = random_values<float>(n, 2);
    std::vector<float> y(n), dx(n);
    std::vector<uint8_t> mask(n + 1, 42);
    typed<float>().dropout(args, x.data(), y.data(), mask.data(), n);
    typed<float>().dropout_grad(dy.data(), mask.data(), args.scale, dx.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const auto random = dropout_random(key, sample, static_cast<uint32_t>(5 + i / 4));
      const bool kept = random[i % 4] >= args.threshold;
      ASSERT_EQ(mask[i], kept) << i;
      EXPECT_EQ(y[i], kept ? x[i] * args.scale : 0);
      EXPECT_EQ(dx[i], kept ? dy[i] * args.scale : 0);
    }
    EXPECT_EQ(mask[n], 42) << "wrote past the end";
  }
}

TEST_P(LoopsTest, RowsMatchTheirFormulas) {
  for (int64_t n : kSizes) {
    const auto x = random_values<float>(n, 1, -30, 30), dy = random_values<float>(n, 2);
    std::vector<float> y(n), dx(n);
    const double log_sum = loops_->softmax(x.data(), y.data(), n);
    double sum = 0, dot = 0;
    for (float v : x) sum += std::exp(double{v});
    EXPECT_NEAR(log_sum, std::log(sum), 1e-6 * std::abs(std::log(sum)) + 1e-6);
    for (int64_t i = 0; i < n; ++i)
      expect_close(y[i], std::exp(double{x[i]}) / sum, 64);  // x − max x is rounded
    loops_->softmax_grad(dy.data(), y.data(), dx.data(), n);
    for (int64_t i = 0; i < n; ++i) dot += double{dy[i]} * y[i];
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(dx[i], y[i] * (dy[i] - dot), 1e-6 * y[i] + 1e-30);
    loops_->scaled_difference(x.data(), 0.25f, -2, dx.data(), n);
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(dx[i], -2 * (x[i] - 0.25), 1e-5);
  }
}

TEST_P(LoopsTest, LossesMatchTheirFormulas) {
  for (int64_t n : kSizes) {
    const auto x = random_values<float>(n, 1, -40, 40), t = random_values<float>(n, 2, 0, 1);
    std::vector<float> dx(n);
    double sum = 0, squares = 0, distance = 0, entropy = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += x[i];
      squares += double{x[i]} * x[i];
      distance += (double{x[i]} - t[i]) * (double{x[i]} - t[i]);
      entropy += std::max(x[i], 0.0f) - double{x[i]} * t[i] + std::log1p(std::exp(-std::abs(x[i])));
    }
    EXPECT_NEAR(loops_->sum(x.data(), n), sum, 1e-5 * static_cast<double>(n));
    EXPECT_NEAR(loops_->sum_of_squares(x.data(), n) / squares, 1, 1e-12);
    EXPECT_NEAR(loops_->squared_distance(x.data(), t.data(), n) / distance, 1, 1e-6);
    EXPECT_NEAR(loops_->sigmoid_cross_entropy(x.data(), t.data(), n) / entropy, 1, 1e-6);
    loops_->squared_distance_grad(x.data(), t.data(), 3, dx.data(), n);
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(dx[i], 3 * (x[i] - t[i]), 1e-5);
    loops_->sigmoid_cross_entropy_grad(x.data(), t.data(), 3, dx.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(dx[i], 3 * (1 / (1 + std::exp(-double{x[i]})) - t[i]), 1e-6);
    }
  }
}

TEST_P(LoopsTest, SmallLossesKeepTheirRelativePrecision) {
  const std::vector<float> x(19, 20), t(19, 1);  // log(1 + e^-20) each
  EXPECT_NEAR(
      loops_->sigmoid_cross_entropy(x.data(), t.data(), 19) / (19 * std::log1p(std::exp(-20.0))), 1,
      1e-5);
}

TEST_P(LoopsTest, SgdStepMatchesItsFormula) {
  for (int64_t n : kSizes) {
    for (const bool nesterov : {false, true}) {
      for (const float momentum : {0.0f, 0.9f}) {
        for (const float pull : {0.0f, 0.3f}) {
          const auto w = random_values<float>(n, 1), g = random_values<float>(n, 2),
                     v = random_values<float>(n, 3), z = random_values<float>(n, 4);
          auto velocity = v;
          std::vector<float> next(n);
          loops_->sgd_step({0.1f, momentum, 0.01f, 0.5f, pull, nesterov},
                           {w.data(), g.data(), momentum > 0 ? velocity.data() : nullptr,
                            pull > 0 ? z.data() : nullptr, next.data()},
                           0, n);
          for (int64_t i = 0; i < n; ++i) {
            const double d = 0.5 * g[i] + 0.01 * w[i], moved = momentum * double{v[i]} + d;
            const double step = momentum == 0 ? d : nesterov ? d + momentum * moved : moved;
            ASSERT_NEAR(next[i], w[i] - 0.1 * step - pull * (w[i] - z[i]), 1e-6);
            ASSERT_NEAR(velocity[i], momentum == 0 ? v[i] : moved, 1e-6);
          }
        }
      }
    }
  }
}

TEST_P(LoopsTest, HogwildStepMatchesItsFormula) {
  for (int64_t n : kSizes) {
    const auto w = random_values<float>(n, 1), g = random_values<float>(n, 2),
               before = random_values<float>(n, 3);
    for (const bool overwrites : {false, true}) {
      auto shared = before;
      std::vector<float> next(n);
      loops_->hogwild_step({.lr = 0.1f, .weight_decay = 0.01f, .gradient_scale = 0.5f},
                           {w.data(), g.data(), shared.data(), next.data(), overwrites}, 0, n);
      const auto& from = overwrites ? w : before;
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_NEAR(shared[i], from[i] - 0.1 * (0.5 * g[i] + 0.01 * w[i]), 1e-6);
        ASSERT_EQ(next[i], shared[i]);
      }
      std::vector<float> taken(n);
      loops_->take_shared(shared.data(), taken.data(), 0, n);
      ASSERT_EQ(taken, shared);
    }
  }
}

/// Each float has what some order of whole reads and writes would give. Under ThreadSanitizer a
/// plain access is an error.
TEST_P(LoopsTest, ThreadsMayTakeHogwildStepsAtOnce) {
  constexpr int64_t kSize = 1000;
  constexpr int kSteps = 2000, kThreads = 3;
  const std::vector<float> w(kSize), g(kSize, 1.0f);
  std::vector<float> shared(kSize);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      std::vector<float> next(kSize);
      for (int step = 0; step < kSteps; ++step) {
        loops_->hogwild_step({.lr = -1, .gradient_scale = 1},
                             {w.data(), g.data(), shared.data(), next.data(), false}, 0, kSize);
        loops_->take_shared(shared.data(), next.data(), 0, kSize);
      }
    });
  }
  threads.clear();
  for (const float x : shared) {
    ASSERT_EQ(x, std::floor(x));
    ASSERT_GE(x, 1);
    ASSERT_LE(x, kThreads * kSteps);
  }
}

TEST_P(LoopsTest, CombineRoundsProductsAndSums) {
  constexpr int64_t kOffset = 3;
  for (int64_t n : kSizes) {
    const auto a = random_values<float>(n + kOffset, 1), b = random_values<float>(n + kOffset, 2);
    auto c = random_values<float>(n + kOffset, 3);
    const auto before = c;
    const std::array<float, 3> factors{0.3f, -1.7f, 0.1f};
    const std::array<const float*, 3> terms{a.data(), b.data(), c.data()};
    loops_->combine(factors.data(), terms.data(), 3, c.data(), kOffset, n + kOffset);
    for (int64_t i = kOffset; i < n + kOffset; ++i) {
      ASSERT_EQ(c[i], factors[0] * a[i] + factors[1] * b[i] + factors[2] * before[i]);
    }
  }
}

}  // namespace
}  // namespace crossbow
