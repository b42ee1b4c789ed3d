// Twenty steps of a session against the same net written out here, in plain loops and double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "small_net.h"

namespace {

/// Activations [n, c, side, side] or weights [outputs, inputs, side, side], row-major.
struct Array {
  int64_t n, c, side;
  std::vector<double> values;

  Array(int64_t n, int64_t c, int64_t side)
      : n(n), c(c), side(side), values(static_cast<size_t>(n * c * side * side)) {}
  double& at(int64_t i, int64_t j, int64_t y, int64_t x) {
    return values[static_cast<size_t>(((i * c + j) * side + y) * side + x)];
  }
  double at(int64_t i, int64_t j, int64_t y, int64_t x) const {
    return const_cast<Array*>(this)->at(i, j, y, x);
  }
};

template <typename F>
void for_each(const Array& a, F f) {
  for (int64_t i = 0; i < a.n; ++i) {
    for (int64_t j = 0; j < a.c; ++j) {
      for (int64_t y = 0; y < a.side; ++y) {
        for (int64_t x = 0; x < a.side; ++x) f(i, j, y, x);
      }
    }
  }
}

/// Calls f for each product x · w that is a term of y in a convolution of stride 1.
template <typename F>
void for_each_term(const Array& x, const Array& w, const Array& y, int64_t padding, F f) {
  for_each(y, [&](int64_t i, int64_t out, int64_t row, int64_t column) {
    for (int64_t in = 0; in < x.c; ++in) {
      for (int64_t ky = 0; ky < w.side; ++ky) {
        for (int64_t kx = 0; kx < w.side; ++kx) {
          const int64_t from_y = row + ky - padding, from_x = column + kx - padding;
          if (from_y < 0 || from_y >= x.side || from_x < 0 || from_x >= x.side) continue;
          f(i, out, row, column, in, ky, kx, from_y, from_x);
        }
      }
    }
  });
}

struct Convolution {
  int64_t padding;
  Array x{0, 0, 0};

  Array forward(const Array& input, const Array& w, const std::vector<double>& bias) {
    x = input;
    Array y(x.n, w.n, x.side + 2 * padding - w.side + 1);
    if (!bias.empty()) {
      for_each(y, [&](auto i, auto j, auto row, auto column) {
        y.at(i, j, row, column) = bias[static_cast<size_t>(j)];
      });
    }
    for_each_term(
        x, w, y, padding,
        [&](auto i, auto out, auto row, auto column, auto in, auto ky, auto kx, auto fy, auto fx) {
          y.at(i, out, row, column) += x.at(i, in, fy, fx) * w.at(out, in, ky, kx);
        });
    return y;
  }
  /// Adds to dw and, if there is one, to the bias's; returns dx.
  Array backward(const Array& dy, const Array& w, Array& dw, std::vector<double>* dbias) {
    Array dx(x.n, x.c, x.side);
    for_each_term(
        x, w, dy, padding,
        [&](auto i, auto out, auto row, auto column, auto in, auto ky, auto kx, auto fy, auto fx) {
          const double d = dy.at(i, out, row, column);
          dx.at(i, in, fy, fx) += d * w.at(out, in, ky, kx);
          dw.at(out, in, ky, kx) += d * x.at(i, in, fy, fx);
        });
    if (dbias) {
      for_each(dy, [&](auto i, auto j, auto row, auto column) {
        (*dbias)[static_cast<size_t>(j)] += dy.at(i, j, row, column);
      });
    }
    return dx;
  }
};

struct Norm {
  std::vector<double> running_mean, running_var, inverse;
  Array normalised{0, 0, 0};

  Array forward(const Array& x, const std::vector<double>& scale,
                const std::vector<double>& shift) {
    const auto count = static_cast<double>(x.n * x.side * x.side);
    const auto channels = static_cast<size_t>(x.c);
    std::vector<double> mean(channels), variance(channels);
    inverse.assign(channels, 0);
    const auto of = [](int64_t j) { return static_cast<size_t>(j); };
    for_each(x, [&](auto i, auto j, auto r, auto c) { mean[of(j)] += x.at(i, j, r, c) / count; });
    for_each(x, [&](auto i, auto j, auto r, auto c) {
      variance[of(j)] += std::pow(x.at(i, j, r, c) - mean[of(j)], 2) / count;
    });
    for (size_t j = 0; j < channels; ++j) {
      inverse[j] = 1 / std::sqrt(variance[j] + 1e-5);
      running_mean[j] = 0.9 * running_mean[j] + 0.1 * mean[j];
      running_var[j] = 0.9 * running_var[j] + 0.1 * variance[j];
    }
    normalised = x;
    Array y = x;
    for_each(x, [&](auto i, auto j, auto r, auto c) {
      normalised.at(i, j, r, c) = (x.at(i, j, r, c) - mean[of(j)]) * inverse[of(j)];
      y.at(i, j, r, c) = scale[of(j)] * normalised.at(i, j, r, c) + shift[of(j)];
    });
    return y;
  }
  Array backward(const Array& dy, const std::vector<double>& scale, std::vector<double>& dscale,
                 std::vector<double>& dshift) const {
    const auto count = static_cast<double>(dy.n * dy.side * dy.side);
    const auto of = [](int64_t j) { return static_cast<size_t>(j); };
    for_each(dy, [&](auto i, auto j, auto r, auto c) {
      dshift[of(j)] += dy.at(i, j, r, c);
      dscale[of(j)] += dy.at(i, j, r, c) * normalised.at(i, j, r, c);
    });
    Array dx = dy;
    for_each(dy, [&](auto i, auto j, auto r, auto c) {
      const double means = (dshift[of(j)] + normalised.at(i, j, r, c) * dscale[of(j)]) / count;
      dx.at(i, j, r, c) = scale[of(j)] * inverse[of(j)] * (dy.at(i, j, r, c) - means);
    });
    return dx;
  }
};

Array relu(Array x) {
  for (double& v : x.values) v = std::max(v, 0.0);
  return x;
}

/// Where y, the result of a ReLU, is 0, so is its gradient.
Array relu_backward(const Array& y, Array dy) {
  for (size_t i = 0; i < dy.values.size(); ++i) dy.values[i] *= y.values[i] > 0 ? 1 : 0;
  return dy;
}

/// Windows of 2 × 2.
Array max_pool(const Array& x) {
  Array y(x.n, x.c, x.side / 2);
  for_each(y, [&](auto i, auto j, auto r, auto c) {
    y.at(i, j, r, c) = std::max({x.at(i, j, 2 * r, 2 * c), x.at(i, j, 2 * r, 2 * c + 1),
                                 x.at(i, j, 2 * r + 1, 2 * c), x.at(i, j, 2 * r + 1, 2 * c + 1)});
  });
  return y;
}

Array max_pool_backward(const Array& x, const Array& y, const Array& dy) {
  Array dx(x.n, x.c, x.side);
  for_each(x, [&](auto i, auto j, auto r, auto c) {
    const bool largest = x.at(i, j, r, c) == y.at(i, j, r / 2, c / 2);
    dx.at(i, j, r, c) = largest ? dy.at(i, j, r / 2, c / 2) : 0;
  });
  return dx;
}

/// Of [n, c, 2, 2], to one value a channel.
Array mean_of_four(const Array& x) {
  Array y(x.n, x.c, 1);
  for_each(x, [&](auto i, auto j, auto r, auto c) { y.at(i, j, 0, 0) += x.at(i, j, r, c) / 4; });
  return y;
}

Array mean_of_four_backward(const Array& x, const Array& dy) {
  Array dx = x;
  for_each(x, [&](auto i, auto j, auto r, auto c) { dx.at(i, j, r, c) = dy.at(i, j, 0, 0) / 4; });
  return dx;
}

/// Mean softmax cross-entropy of logits [n, classes, 1, 1], whose gradient replaces them.
double cross_entropy(Array& logits, const std::vector<int32_t>& labels) {
  double loss = 0;
  for (int64_t i = 0; i < logits.n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < logits.c; ++j) sum += std::exp(logits.at(i, j, 0, 0));
    const int32_t label = labels[static_cast<size_t>(i)];
    loss += std::log(sum) - logits.at(i, label, 0, 0);
    for (int64_t j = 0; j < logits.c; ++j) {
      double& d = logits.at(i, j, 0, 0);
      d = (std::exp(d) / sum - (j == label ? 1 : 0)) / static_cast<double>(logits.n);
    }
  }
  return loss / static_cast<double>(logits.n);
}

/// The net of small_net.h; parameters in its order.
class Reference {
 public:
  Reference() {
    const std::vector<size_t> sizes{108, 6, 6, 216, 4, 20, 5};
    for (size_t p = 0; p < sizes.size(); ++p) {
      const auto first = small_net::first_weights(p, sizes[p]);
      parameters.emplace_back(first.begin(), first.end());
      velocity.emplace_back(sizes[p]);
    }
    norm.running_mean.assign(6, 0);
    norm.running_var.assign(6, 1);
  }

  double step(const small_net::Batch& batch, double lr) {
    using namespace small_net;
    auto& p = parameters;
    Array images(kBatch, kChannels, kSide);
    images.values.assign(batch.images.begin(), batch.images.end());
    const Array w1 = weights(0, 6, 2, 3), w2 = weights(3, 4, 6, 3), w3 = weights(5, kClasses, 4, 1);
    const Array active1 = relu(norm.forward(conv1.forward(images, w1, {}), p[1], p[2]));
    const Array pooled1 = max_pool(active1);
    const Array active2 = relu(conv2.forward(pooled1, w2, p[4]));
    Array logits = dense.forward(mean_of_four(active2), w3, p[6]);
    const double loss = cross_entropy(logits, batch.labels);

    std::vector<std::vector<double>> d;
    for (const auto& values : p) d.emplace_back(values.size());
    Array d1 = w1, d2 = w2, d3 = w3;
    for (Array* g : {&d1, &d2, &d3}) std::fill(g->values.begin(), g->values.end(), 0.0);
    Array back = mean_of_four_backward(active2, dense.backward(logits, w3, d3, &d[6]));
    back = conv2.backward(relu_backward(active2, back), w2, d2, &d[4]);
    back = relu_backward(active1, max_pool_backward(active1, pooled1, back));
    conv1.backward(norm.backward(back, p[1], d[1], d[2]), w1, d1, nullptr);
    d[0] = d1.values;
    d[3] = d2.values;
    d[5] = d3.values;
    update(d, lr);
    return loss;
  }

  std::vector<std::vector<double>> parameters;
  Norm norm;

 private:
  Array weights(size_t parameter, int64_t outputs, int64_t inputs, int64_t side) const {
    Array w(outputs, inputs, side);
    w.values = parameters[parameter];
    return w;
  }
  void update(const std::vector<std::vector<double>>& gradients, double lr) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      for (size_t i = 0; i < parameters[p].size(); ++i) {
        double& w = parameters[p][i];
        double& v = velocity[p][i];
        v = small_net::kMomentum * v + gradients[p][i] + small_net::kWeightDecay * w;
        w -= lr * v;
      }
    }
  }

  Convolution conv1{1}, conv2{0}, dense{0};
  std::vector<std::vector<double>> velocity;
};

void expect_near(const std::vector<float>& ours, const std::vector<double>& wanted,
                 const char* name) {
  ASSERT_EQ(ours.size(), wanted.size()) << name;
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(ours[i]), wanted[i], 5e-6) << name << ' ' << i;
  }
}

class ScalarReference : public ::testing::TestWithParam<const char*> {};

TEST_P(ScalarReference, TakesTheSameSteps) {
  crossbow::Session session = small_net::session(GetParam());
  const std::vector<double> losses = small_net::train(session);
  Reference reference;
  for (int64_t step = 0; step < small_net::kSteps; ++step) {
    const double loss = reference.step(small_net::batch(step), small_net::rate(step));
    EXPECT_NEAR(losses[static_cast<size_t>(step)], loss, 2e-6) << "step " << step;
  }
  for (size_t p = 0; p < small_net::parameters().size(); ++p) {
    const char* const name = small_net::parameters()[p];
    expect_near(session.get(name), reference.parameters[p], name);
  }
  expect_near(session.get("norm1.running_mean"), reference.norm.running_mean, "mean");
  expect_near(session.get("norm1.running_var"), reference.norm.running_var, "variance");
}

INSTANTIATE_TEST_SUITE_P(Devices, ScalarReference, testing::Values("cpu", "ref"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
