#include "device/host_math.h"

namespace crossbow {
namespace {

template <typename T>
class RefVectorMath : public HostVectorMath {
 public:
  using HostVectorMath::HostVectorMath;

  void combine(std::span<const double> factors, std::span<const void* const> terms, void* out,
               int64_t n) const override {
    for (int64_t i = 0; i < n; ++i) {
      T sum = 0;
      for (size_t t = 0; t < terms.size(); ++t) {
        sum += static_cast<T>(factors[t]) * static_cast<const T*>(terms[t])[i];
      }
      static_cast<T*>(out)[i] = sum;
    }
  }

  void squared_norm(const void* x, int64_t n, double* total) const override {
    const T* values = static_cast<const T*>(x);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]) * values[i];
    *total = sum;
  }
};

const RefVectorMath<float> kF32{"ref", DType::f32};
const RefVectorMath<double> kF64{"ref", DType::f64};

}  // namespace
}  // namespace crossbow
