// cuBLASLt's products of matrices. The library is loaded when something first asks for it, so that
// a program runs where it is missing.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace crossbow::cuda {

/// d = op(a)·op(b) and what the epilogue does, of dense matrices with their columns one after the
/// other: d is [rows, columns], and `inner` is the length of the sums, which are of f32.
struct MatrixProduct {
  int64_t rows, columns, inner;
  bool transpose_a, transpose_b;  // where set, a is [inner, rows], b is [columns, inner]
  DType dtype;                    // of all matrices
  bool tf32;                      // f32's operands may be rounded
  /// None, or one with a vector of `dtype`: a bias or its gradient.
  cublasLtEpilogue_t epilogue;
};

class MatrixPlan {
 public:
  std::string name;  // cuBLASLt's algorithm and its settings
  size_t workspace_bytes;

  /// A function that gives the work to the queue whose call the thread makes. All addresses are of
  /// the GPU's memory, to 16 bytes; `vector` is the epilogue's, null if it has none.
  std::function<void()> bind(const void* a, const void* b, void* d, void* vector,
                             void* workspace) const;

 private:
  friend std::vector<MatrixPlan> matrix_plans(const MatrixProduct& product, int gpu);
  struct Described;
  MatrixPlan(std::shared_ptr<const Described> product,
             const cublasLtMatmulHeuristicResult_t& found);

  std::shared_ptr<const Described> product_;
  cublasLtMatmulAlgo_t algorithm_;
};

/// The first few in cuBLASLt's order of merit for a GPU of this machine. Each gives the same bits
/// every time. Throws Error if there is no cuBLASLt, or with its reason.
std::vector<MatrixPlan> matrix_plans(const MatrixProduct& product, int gpu);

/// "13.1.0".
std::string cublaslt_version();

}  // namespace crossbow::cuda
