#include "kernels/cuda/bias.h"

#include "kernels/cuda/activate.h"
#include "kernels/cuda/prepare.h"

namespace crossbow::CROSSBOW_GRID {
namespace {

template <typename T>
struct AddBias {
  int64_t channels;
  Activation activation;
  T* y;
  const float* bias;  // may be null

  CROSSBOW_GPU void operator()(int64_t i) const {
    y[i] = activate(activation, y[i] + (bias ? bias[i % channels] : 0));
  }
};

template <typename T>
struct SumBias {
  Channels shape;
  const T* dy;
  float* dbias;

  template <int width>
  CROSSBOW_GPU void add_up(const Thread& t, Pair (&sums)[width]) const {
    using Values = Packet<T, width>;
    shape.for_packets(
        t, [&](int64_t i) { return Values::at(dy + i); },
        [&](int64_t, const Values& values) {
          CROSSBOW_UNROLL
          for (int j = 0; j < width; ++j) sums[j].a += values[j];
        });
  }
  template <int width>
  CROSSBOW_GPU void apply(const Thread& t, const Pair* sums) const {
    if (!shape.is_first(t)) return;
    CROSSBOW_UNROLL
    for (int j = 0; j < width; ++j) dbias[shape.channel(t) + j] = sums[j].a;
  }
};

Call call_to_add(const BiasShape& shape, Activation activation, void* y, const float* bias) {
  return with_storage(shape.dtype, [&](auto t) -> Call {
    const AddBias<decltype(t)> f{shape.channels, activation, as<decltype(t)>(y), bias};
    return [n = shape.rows * shape.channels, f](const Step&) { for_each(n, f); };
  });
}

Call call_to_sum(const BiasShape& shape, const void* dy, float* dbias, void* scratch) {
  const Channels channels(shape.rows, shape.channels, shape.target);
  return with_storage(shape.dtype, [&](auto t) -> Call {
    using T = decltype(t);
    const SumBias<T> f{channels, static_cast<const T*>(dy), dbias};
    return [=](const Step&) { sum_and_apply(f, scratch); };
  });
}

size_t scratch_bytes(const BiasShape& shape) {
  return Channels(shape.rows, shape.channels, shape.target).scratch_bytes();
}

}  // namespace

const BiasCalls kBias{call_to_add, call_to_sum, scratch_bytes};

}  // namespace crossbow::CROSSBOW_GRID
