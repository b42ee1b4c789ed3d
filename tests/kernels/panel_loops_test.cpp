// The loops over panels, which are batch norm's, against scalar formulas in double.
#include <algorithm>

#include "kernels/loops.h"

namespace crossbow {
namespace {

class PanelLoopsTest : public LoopsTest {};

INSTANTIATE_TEST_SUITE_P(InstructionSets, PanelLoopsTest, instruction_sets(), instruction_set);

/// Panels of every width, tall and flat, with and without gaps between rows and images.
std::vector<Panel> panels() {
  std::vector<Panel> result;
  for (int64_t lanes : {1, 3, 8, 16, 17, 31, 48, 63, 64}) {
    result.push_back({1, 0, 37, lanes, lanes});
    result.push_back({3, 500 * (lanes + 2), 5, lanes + 2, lanes});
    result.push_back({2, 300 * lanes, 300, lanes, lanes});
    result.push_back({4, 2 * lanes + 1, 1, 0, lanes});
  }
  return result;
}

template <typename F>
void for_elements(const Panel& p, F f) {
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t l = 0; l < p.lanes; ++l) f(n * p.batch_stride + r * p.row_stride + l, l);
    }
  }
}

int64_t extent(const Panel& p) {
  return (p.batch - 1) * p.batch_stride + (p.rows - 1) * p.row_stride + p.lanes;
}

/// Arguments for one panel's normalisation and its gradient.
template <typename T>
struct PanelData {
  explicit PanelData(const Panel& p)
      : x(random_values<T>(extent(p), 1)),
        dy(random_values<T>(extent(p), 2)),
        y(random_values<T>(extent(p), 3)),
        residual(random_values<T>(extent(p), 4)),
        mean(random_values<float>(p.lanes, 5)),
        factor(random_values<float>(p.lanes, 6)),
        offset(random_values<float>(p.lanes, 7, -2, 6)),
        slope(random_values<float>(p.lanes, 8)),
        constant(random_values<float>(p.lanes, 9)) {}
  std::vector<T> x, dy, y, residual;
  std::vector<float> mean, factor, offset, slope, constant;

  double centred(int64_t i, int64_t l) const { return double{to_float(x[i])} - mean[l]; }
  double normal(int64_t i, int64_t l) const { return centred(i, l) * factor[l] + offset[l]; }
  double masked(Mask mask, int64_t i, int64_t l) const {
    const double open = mask == Mask::output ? to_float(y[i]) : normal(i, l);
    const bool below = mask != Mask::input6 || open < 6;
    return mask == Mask::none || (open > 0 && below) ? to_float(dy[i]) : 0;
  }
};

void expect_sums(const Panel& p, const std::vector<double>& sums, const std::vector<double>& first,
                 const std::vector<double>& second) {
  const double scale = static_cast<double>(p.batch * p.rows);
  for (int64_t l = 0; l < p.lanes; ++l) {
    ASSERT_NEAR(sums[l], first[l], 2e-6 * scale) << l;
    ASSERT_NEAR(sums[kMaxLanes + l], second[l], 4e-6 * scale) << l;
  }
}

TEST_P(PanelLoopsTest, MomentsAreSumsOfDifferences) {
  for_types([&](auto t) {
    using T = decltype(t);
    for (const Panel& p : panels()) {
      const PanelData<T> d(p);
      std::vector<double> sums(2 * kMaxLanes, 1), first(p.lanes, 1), second(p.lanes, 1);
      typed<T>().moments(p, d.x.data(), d.mean.data(), sums.data());
      for_elements(p, [&](int64_t i, int64_t l) {
        first[l] += d.centred(i, l);
        second[l] += d.centred(i, l) * d.centred(i, l);
      });
      expect_sums(p, sums, first, second);
    }
  });
}

TEST_P(PanelLoopsTest, NormaliseMatchesItsFormula) {
  for_types([&](auto t) {
    using T = decltype(t);
    for (const Panel& p : panels()) {
      const PanelData<T> d(p);
      for (const Rectifier rectifier : {Rectifier::none, Rectifier::relu, Rectifier::relu6}) {
        const double least = rectifier == Rectifier::none ? -INFINITY : 0;
        const double most = rectifier == Rectifier::relu6 ? 6 : INFINITY;
        for (const T* residual : {static_cast<const T*>(nullptr), d.residual.data()}) {
          if (residual && rectifier == Rectifier::relu6) continue;
          std::vector<T> y(extent(p), stored<T>(42)), expected = y;
          typed<T>().normalise(p, {d.x.data(), residual, y.data(), d.mean.data(), d.factor.data(),
                                   d.offset.data(), rectifier});
          for_elements(p, [&](int64_t i, int64_t l) {
            const double v = d.normal(i, l) + (residual ? to_float(residual[i]) : 0);
            expected[i] = stored<T>(static_cast<float>(std::clamp(v, least, most)));
          });
          for (size_t i = 0; i < y.size(); ++i) {
            const double e = to_float(expected[i]);
            ASSERT_NEAR(to_float(y[i]), e, 2 * kUnit<T> * std::abs(e) + 2e-6) << i;
          }
        }
      }
    }
  });
}

TEST_P(PanelLoopsTest, NormaliseGradMatchesItsFormula) {
  for_types([&](auto t) {
    using T = decltype(t);
    for (const Panel& p : panels()) {
      const PanelData<T> d(p);
      for (const Mask mask : {Mask::none, Mask::input, Mask::input6, Mask::output}) {
        const bool residual = mask == Mask::output;
        std::vector<T> dx(extent(p), stored<T>(42)), dresidual = dx, expected = dx, expected_r = dx;
        const NormaliseGradArgs<T> args{
            mask,           d.dy.data(),      d.x.data(),
            d.y.data(),     dx.data(),        residual ? dresidual.data() : nullptr,
            d.mean.data(),  d.factor.data(),  d.offset.data(),
            d.slope.data(), d.constant.data()};
        std::vector<double> sums(2 * kMaxLanes), first(p.lanes), second(p.lanes);
        typed<T>().normalise_grad_sums(p, args, sums.data());
        typed<T>().normalise_grad(p, args);
        for_elements(p, [&](int64_t i, int64_t l) {
          const double dy = d.masked(mask, i, l);
          first[l] += dy;
          second[l] += dy * d.centred(i, l);
          if (residual) expected_r[i] = stored<T>(static_cast<float>(dy));
          expected[i] = stored<T>(
              static_cast<float>(dy * d.factor[l] + d.centred(i, l) * d.slope[l] + d.constant[l]));
        });
        expect_sums(p, sums, first, second);
        EXPECT_EQ(dresidual, expected_r);
        for (size_t i = 0; i < dx.size(); ++i) {
          const double e = to_float(expected[i]);
          ASSERT_NEAR(to_float(dx[i]), e, 2 * kUnit<T> * std::abs(e) + 4e-6) << i;
        }
      }
    }
  });
}

TEST_P(PanelLoopsTest, LongSumsKeepTheirPrecision) {
  const int64_t rows = 200000;
  const auto x = random_values<float>(rows * 16, 1, 0, 1);
  const std::vector<float> origin(16, 0);
  std::vector<double> sums(2 * kMaxLanes);
  typed<float>().moments({1, 0, rows, 16, 16}, x.data(), origin.data(), sums.data());
  double expected = 0;
  for (int64_t r = 0; r < rows; ++r) expected += x[r * 16 + 3];
  EXPECT_NEAR(sums[3] / expected, 1, 3e-7);
}

}  // namespace
}  // namespace crossbow
