// The vector loops that the CPU backend is made of, one table for each instruction set; which one
// runs is chosen when the program starts. The loops compile from kernels/cpu/simd/*.cpp, once per
// set, so this header may hold plain declarations only: an inline function compiled with AVX-512
// could be the one the linker keeps for the whole program.
#pragma once

#include <cstdint>

namespace crossbow {

/// bf16 as stored. core/dtype.h's type has inline functions, see above.
using Bf16 = uint16_t;

/// What a channel-wise loop runs over: `batch` times `rows` rows of `lanes` neighbouring elements.
/// A lane belongs to one channel throughout, and per-lane arguments have `lanes` elements.
struct Panel {
  int64_t batch, batch_stride, rows, row_stride;  // strides in elements
  int64_t lanes;                                  // at most kMaxLanes
};
inline constexpr int64_t kMaxLanes = 64;

/// What follows a normalisation; relu6 only where there is no residual.
enum class Rectifier { none, relu, relu6 };

/// y = rectified((x − mean)·factor + offset + residual)
template <typename T>
struct NormaliseArgs {
  const T* x;
  const T* residual;  // may be null
  T* y;
  const float *mean, *factor, *offset;
  Rectifier rectifier;
};

/// Where the rectifier behind a normalisation let the gradient through: everywhere (there was
/// none), where (x − mean)·factor + offset > 0, where that was below 6 too, or where the output y >
/// 0.
enum class Mask { none, input, input6, output };

/// With dy' = dy where the mask is open, else 0:
/// dx = factor·dy' + slope·(x − mean) + constant and dresidual = dy'.
template <typename T>
struct NormaliseGradArgs {
  Mask mask;
  const T *dy, *x, *y;  // y only for Mask::output
  T* dx;
  T* dresidual;  // may be null
  const float *mean, *factor, *offset, *slope, *constant;
};

/// How element i of a row is decided: word i % 4 of philox({first_quad + i / 4, counter…}, key) is
/// at least `threshold` for the elements that are kept.
struct DropoutArgs {
  uint32_t first_quad, counter[3], key[2];
  uint32_t threshold;
  float scale;
};

/// Loops over activations stored as T. Arithmetic is f32. Outputs may be the same array as an input
/// (element for element), nothing else may overlap.
template <typename T>
struct TypedLoops {
  /// sums[l] += Σ(x − origin), sums[kMaxLanes + l] += Σ(x − origin)².
  void (*moments)(const Panel&, const T* x, const float* origin, double* sums);
  void (*normalise)(const Panel&, const NormaliseArgs<T>&);
  /// sums[l] += Σ dy', sums[kMaxLanes + l] += Σ dy'·(x − mean); reads neither slope nor constant.
  void (*normalise_grad_sums)(const Panel&, const NormaliseGradArgs<T>&, double* sums);
  void (*normalise_grad)(const Panel&, const NormaliseGradArgs<T>&);

  using Unary = void (*)(const T* x, T* y, int64_t n);
  using Binary = void (*)(const T* a, const T* b, T* y, int64_t n);
  Binary add, add_relu, multiply;
  Unary relu, relu6, sigmoid, tanh, gelu, gelu_tanh;
  Binary relu_grad, relu6_grad, sigmoid_grad, tanh_grad;  // (dy, y) -> dx
  Binary gelu_grad, gelu_tanh_grad;                       // (dy, x) -> dx

  void (*dropout)(const DropoutArgs&, const T* x, T* y, uint8_t* mask, int64_t n);
  /// dx = dy·mask·scale
  void (*dropout_grad)(const T* dy, const uint8_t* mask, float scale, T* dx, int64_t n);
};

struct SgdArgs {
  float lr, momentum, weight_decay, gradient_scale, pull;
  bool nesterov;
};
struct SgdArrays {
  const float *weights, *gradient;
  float* velocity;       // null iff momentum is 0
  const float* central;  // null iff pull is 0
  float* next;           // may be `weights`
};

struct HogwildArrays {
  const float *weights, *gradient;
  float* shared;  // by several threads
  float* next;    // may be `weights`; null where nobody reads it
  bool overwrites;
};

/// Dense weights in oneDNN's 16i64o layout: blocks of 16 inputs by 64 outputs, those of the next 64
/// outputs `block_stride` elements further. dy is [rows, outputs], dx [rows, inputs], row-major.
struct DenseBlocks {
  int64_t rows, outputs, inputs, block_stride;  // outputs: a multiple of 64
};

/// The forward pass with such weights, of which the blocks of all inputs lie in a row and the last
/// ones may be padded by zeros: x is [rows, inputs], y [rows, outputs].
struct DenseArgs {
  int64_t rows, inputs, outputs;
  const float *x, *bias;  // bias may be null
  float* y;
  float least, most;  // y is clamped to
};

/// The gradient of such weights, of some blocks of inputs in a row: x and dy point at the first
/// input and output in the first row; rows are `inputs` and `outputs` elements apart.
struct DenseGradArgs {
  int64_t rows, inputs, outputs;  // rows: at most kMostGradRows
  int64_t blocks;
  const float *x, *dy;
};
inline constexpr int64_t kMostGradRows = 256;

/// Of sparse rows: row r has those from extents[2r] to extents[2r + 1].
struct SparseNumbers {
  const float* values;
  const int32_t* columns;
  const int32_t* extents;
};

/// Weights are input-major, [features, outputs], and shared by several threads; y is
/// [rows, outputs].
struct SparseDenseArgs {
  SparseNumbers x;
  int64_t outputs;
  const float *weights, *bias;  // bias may be null
  float* y;
};
struct SparseAddArgs {
  SparseNumbers x;
  int64_t rows, outputs;
  const float* dy;
  float factor;
  float* to;  // as weights
};

struct Loops {
  const char* name;  // of the instruction set
  TypedLoops<float> f32;
  TypedLoops<Bf16> bf16;

  /// y = exp(x − max x) / Σ of these over one row; returns log Σ exp(x).
  double (*softmax)(const float* x, float* y, int64_t n);
  /// dx = y·(dy − Σ dy·y) over one row.
  void (*softmax_grad)(const float* dy, const float* y, float* dx, int64_t n);
  /// y = scale·(p − uniform): the gradient of a row's cross-entropy but for its label.
  void (*scaled_difference)(const float* p, float uniform, float scale, float* y, int64_t n);
  double (*sum)(const float* x, int64_t n);
  double (*sum_of_squares)(const float* x, int64_t n);
  double (*dot)(const float* a, const float* b, int64_t n);               // Σa·b
  double (*squared_distance)(const float* a, const float* b, int64_t n);  // Σ(a − b)²
  /// dx = scale·(a − b)
  void (*squared_distance_grad)(const float* a, const float* b, float scale, float* dx, int64_t n);
  /// Σ max(x, 0) − x·t + log(1 + exp(−|x|))
  double (*sigmoid_cross_entropy)(const float* x, const float* t, int64_t n);
  /// dx = scale·(sigmoid(x) − t)
  void (*sigmoid_cross_entropy_grad)(const float* x, const float* t, float scale, float* dx,
                                     int64_t n);
  /// See device/sgd.h; of the elements from `begin` to `end`.
  void (*sgd_step)(const SgdArgs&, const SgdArrays&, int64_t begin, int64_t end);
  /// See device/hogwild_sgd.h.
  void (*hogwild_step)(const SgdArgs&, const HogwildArrays&, int64_t begin, int64_t end);
  void (*take_shared)(const float* shared, float* own, int64_t begin, int64_t end);
  /// out = Σ factors[t]·terms[t], added up in the order of t; out may be a term. Of the elements
  /// from `begin` to `end`.
  void (*combine)(const float* factors, const float* const* terms, int count, float* out,
                  int64_t begin, int64_t end);
  /// y[r, o] = bias[o] + Σ_i x[r, i]·w[o, i], of the rows from `begin` to `end` and of the 64
  /// outputs from `first` on, whose blocks lie at w. Products of 256 inputs at a time are added up
  /// alone, so that the error is theirs and not that of one long sum.
  void (*dense)(const DenseArgs&, const float* w, int64_t first, int64_t begin, int64_t end);
  /// dx[r, i] = Σ_o dy[r, o]·w[o, i] for the 16 inputs of the blocks at w; dx points at the first.
  void (*dense_grad_input)(const DenseBlocks&, const float* w, const float* dy, float* dx);
  /// dw[o, i] = Σ_r dy[r, o]·x[r, i] of blocks of weights, added up in the order of the rows, and
  /// what the steps above make of it at once: of the blocks whose elements begin at `begin`, and
  /// without reading `gradient`.
  void (*dense_grad_weights)(const DenseGradArgs&, float* dw);
  void (*dense_sgd_step)(const DenseGradArgs&, const SgdArgs&, const SgdArrays&, int64_t begin);
  void (*dense_hogwild_step)(const DenseGradArgs&, const SgdArgs&, const HogwildArrays&,
                             int64_t begin);
  /// db[o] = Σ_r dy[r, o] of `outputs` outputs.
  void (*column_sums)(const float* dy, int64_t rows, int64_t outputs, float* db);
  /// y[r, o] = bias[o] + Σ value·weights[column, o], of the rows from `begin` to `end`.
  void (*sparse_dense)(const SparseDenseArgs&, int64_t begin, int64_t end);
  /// to[column, o] += factor·value·dy[r, o], of the outputs from `begin` to `end`.
  void (*sparse_add)(const SparseAddArgs&, int64_t begin, int64_t end);
  /// to[i·pair_stride + 2c + h] = tile[2i + h, c] of a tile of 16×16, whose rows are `row_stride`
  /// elements apart: pairs of rows.
  void (*pair_rows)(const float* tile, int64_t row_stride, Bf16* to, int64_t pair_stride);
  /// to[i·pair_stride + 2r + h] = tile[r, 2i + h]: pairs of columns.
  void (*pair_columns)(const float* tile, int64_t row_stride, Bf16* to, int64_t pair_stride);
};

/// The fastest set that this machine runs, or the one that the environment's CROSSBOW_ISA names
/// (plain, avx2, avx512, avx512_bf16); throws Error if the machine lacks that.
const Loops& loops();

/// The table of a set, or null if this machine lacks it or the name is unknown.
const Loops* find_loops(const char* name);

}  // namespace crossbow
