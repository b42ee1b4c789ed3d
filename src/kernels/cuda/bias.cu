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
  const Pair* sums;  // by slice

  CROSSBOW_GPU Pair operator()(int64_t row, int64_t c) const {
    return {dy[row * shape.channels + c], 0};
  }
  CROSSBOW_GPU void operator()(const Thread& t) const {
    const Pair total = shape.total(t, sums);
    if (shape.channel(t) < shape.channels && shape.is_first(t)) dbias[shape.channel(t)] = total.a;
  }
};

Call call_to_add(const BiasShape& shape, Activation activation, void* y, const float* bias) {
  return with_storage(shape.dtype, [&](auto t) -> Call {
    const AddBias<decltype(t)> f{shape.channels, activation, as<decltype(t)>(y), bias};
    return [n = shape.rows * shape.channels, f](const Step&) { for_each(n, f); };
  });
}

Call call_to_sum(const BiasShape& shape, const void* dy, float* dbias, void* scratch) {
  const Channels channels{shape.rows, shape.channels};
  return with_storage(shape.dtype, [&](auto t) -> Call {
    using T = decltype(t);
    const SumBias<T> f{channels, static_cast<const T*>(dy), dbias, as<Pair>(scratch)};
    return [=](const Step&) {
      sum_rows(channels, f, scratch);
      launch(channels.grid(), f);
    };
  });
}

size_t scratch_bytes(const BiasShape& shape) {
  return Channels{shape.rows, shape.channels}.scratch_bytes();
}

}  // namespace

const BiasCalls kBias{call_to_add, call_to_sum, scratch_bytes};

}  // namespace crossbow::CROSSBOW_GRID
