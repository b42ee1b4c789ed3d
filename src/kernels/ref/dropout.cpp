#include "ops/dropout.h"

#include "kernels/ref/ref.h"

namespace crossbow::ref {
namespace {

template <typename T>
void dropout(const Run& run) {
  const auto& a = run.attrs<DropoutAttributes>();
  const T* x = run.in<T>(0);
  T* y = run.out<T>(0);
  uint8_t* mask = run.out<uint8_t>(1);
  const DropoutKey key{run.step.seed, run.step.epoch, a.layer};
  const double threshold = a.probability * 0x1p32;
  const T scale = 1 / (1 - T{a.probability});
  const int64_t rows = run.in_shape(0)[0], row_size = run.in_shape(0).elements_from(1);
  for (int64_t r = 0, i = 0; r < rows; ++r) {
    for (int64_t e = 0; e < row_size; ++e, ++i) {
      const auto random =
          dropout_random(key, run.step.first_sample + r, static_cast<uint32_t>(e / 4));
      mask[i] = random[e % 4] >= threshold;
      y[i] = mask[i] ? x[i] * scale : 0;
    }
  }
}

template <typename T>
void dropout_grad(const Run& run) {
  const T* dy = run.in<T>(0);
  const uint8_t* mask = run.in<uint8_t>(1);
  T* dx = run.out<T>();
  const T scale = 1 / (1 - T{run.attrs<DropoutAttributes>().probability});
  for (int64_t i = 0; i < run.out_shape().elements(); ++i) dx[i] = mask[i] ? dy[i] * scale : 0;
}

const RegisterKernel kForward{"ref", "dropout", prepare<dropout<float>, dropout<double>>};
const RegisterKernel kGrad{"ref", "dropout_grad",
                           prepare<dropout_grad<float>, dropout_grad<double>>};

}  // namespace
}  // namespace crossbow::ref
