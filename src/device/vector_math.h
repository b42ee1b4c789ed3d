// Arithmetic on flat spans of parameters, written once per device: optimizers and sync algorithms
// are built from it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/dtype.h"
#include "device/optimizer.h"

namespace crossbow {

/// What a step reads and writes.
struct UpdateSpans {
  const void* weights;
  const void* gradient;
  SlotAddresses slots;                     // the optimizer's, in its order
  const void* central;                     // may be null where there is no pull
  void* next;                              // may be `weights`; null with a live rule: not wanted
  const double* gradient_scale = nullptr;  // null: 1
  bool decay = true;                       // else the step's weight decay is not of these
};

/// Thread-safe and stateless. Pointers are 64-byte aligned spans of n elements of the dtype that
/// the implementation was asked for; the calling thread's OpenMP team shares the work, and the
/// result does not depend on timing.
class VectorMath {
 public:
  virtual ~VectorMath() = default;
  /// A rule's step and the pull, fused into one pass over memory. Throws Error if the device has no
  /// loop for the rule.
  virtual void update(const UpdateRule& rule, const UpdateStep& step, const UpdateSpans& spans,
                      int64_t n) const = 0;
  /// out = Σ factors[i]·terms[i], added up in that order; `out` may be one of the terms.
  virtual void combine(std::span<const double> factors, std::span<const void* const> terms,
                       void* out, int64_t n) const = 0;
  /// sum = the squares' sum, accumulated in double.
  virtual void squared_norm(const void* x, int64_t n, double* sum) const = 0;
  /// scale = clip_scale(limit, sums), of `count` sums.
  virtual void find_clip_scale(double limit, const double* sums, int64_t count,
                               double* scale) const = 0;
};

/// What a gradient, of whose squared norm these are the parts, is multiplied by so that its norm
/// stays within the limit: min(1, limit / (norm + 1e-6)), as PyTorch's clip_grad_norm_ does.
double clip_scale(double limit, std::span<const double> sums);

/// "cpu" (f32), "cuda" (f32) or "ref" (f32, f64). Throws Error if there is none.
const VectorMath& vector_math(std::string_view device, DType dtype);

/// `const RegisterVectorMath k{"ref", DType::f64, math};`, where `math` is a static object.
struct RegisterVectorMath {
  RegisterVectorMath(std::string_view device, DType dtype, const VectorMath& math);
};

}  // namespace crossbow
