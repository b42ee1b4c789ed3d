#include "device/cuda/cublaslt.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "device/cuda/library.h"
#include "device/cuda/runtime.h"

namespace crossbow::cuda {
namespace {

#define CROSSBOW_TEXT_OF(x) #x
#define CROSSBOW_TEXT(x) CROSSBOW_TEXT_OF(x)
constexpr const char* kOldest = CROSSBOW_TEXT(CUBLAS_VER_MAJOR);
constexpr const char* kLibrary = "libcublasLt.so." CROSSBOW_TEXT(CUBLAS_VER_MAJOR);
/// Where the build found it.
#ifdef CROSSBOW_CUBLASLT
constexpr const char* kFound = CROSSBOW_CUBLASLT;
#else
constexpr const char* kFound = kLibrary;
#endif
constexpr size_t kMostWorkspace = size_t{32} << 20;
constexpr uint32_t kAlignment = 16;
constexpr int kMostPlans = 8;  // each of which is tried for milliseconds

/// The functions that we call.
class CublasLt {
 public:
  CublasLt() {
    const Library library({"dense layers on GPUs", "cuBLASLt", kOldest}, kLibrary, kFound);
    library.load(version, "cublasLtGetVersion");
    library.load(status_string, "cublasLtGetStatusString");
    library.load(create, "cublasLtCreate");
    library.load(init_product, "cublasLtMatmulDescInit_internal");
    library.load(set_product, "cublasLtMatmulDescSetAttribute");
    library.load(init_layout, "cublasLtMatrixLayoutInit_internal");
    library.load(init_preference, "cublasLtMatmulPreferenceInit_internal");
    library.load(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    library.load(find, "cublasLtMatmulAlgoGetHeuristic");
    library.load(get, "cublasLtMatmulAlgoConfigGetAttribute");
    library.load(multiply, "cublasLtMatmul");
  }

  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmulDescInit_internal) init_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) get;
  decltype(&cublasLtMatmul) multiply;
};

/// Loaded by the first call.
const CublasLt& cublaslt() {
  static const CublasLt library;
  return library;
}

void expect(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail("{}: cuBLASLt says {}", what, cublaslt().status_string(status));
}

/// Of the current GPU. Never destroyed: at the process's end cuBLASLt may have gone before. To be
/// called under capture_mutex().
cublasLtHandle_t handle() {
  static auto& all = *new std::map<int, cublasLtHandle_t>;
  int gpu = 0;
  check(cudaGetDevice(&gpu), "asking for the current GPU");
  cublasLtHandle_t& handle = all[gpu];
  if (!handle) expect(cublaslt().create(&handle), "preparing cuBLASLt");
  return handle;
}

constexpr const char* kDescribing = "describing a product for a GPU";

template <typename T>
void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t name, T value) {
  expect(cublaslt().set_product(&product, name, &value, sizeof value), kDescribing);
}
template <typename T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t name,
         T value) {
  expect(cublaslt().set_preference(&preference, name, &value, sizeof value), kDescribing);
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

cublasLtMatrixLayoutOpaque_t layout_of(DType dtype, int64_t rows, int64_t columns) {
  cublasLtMatrixLayoutOpaque_t layout;
  expect(cublaslt().init_layout(&layout, sizeof layout, type_of(dtype), static_cast<uint64_t>(rows),
                                static_cast<uint64_t>(columns), rows),
         kDescribing);
  return layout;
}

cublasLtMatmulDescOpaque_t description_of(const MatrixProduct& p) {
  cublasLtMatmulDescOpaque_t product;
  expect(cublaslt().init_product(&product, sizeof product,
                                 p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
         kDescribing);
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.transpose_a));
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.transpose_b));
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  return product;
}

template <typename T>
T setting(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name) {
  T value{};
  size_t written = 0;
  expect(cublaslt().get(&algorithm, name, &value, sizeof value, &written), "asking cuBLASLt");
  return value;
}

std::string name_of(const cublasLtMatmulAlgo_t& a) {
  return fmt::format("cublaslt {}, tile {} stages {} split {}.{} order {} custom {} inner {}.{}",
                     setting<int32_t>(a, CUBLASLT_ALGO_CONFIG_ID),
                     setting<uint32_t>(a, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     setting<uint32_t>(a, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     setting<int32_t>(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                     setting<uint32_t>(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                     setting<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                     setting<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                     setting<uint16_t>(a, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
                     setting<uint16_t>(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
}

}  // namespace

/// As cuBLASLt wants it.
struct MatrixPlan::Described {
  explicit Described(const MatrixProduct& p)
      : product(description_of(p)),
        a(p.transpose_a ? layout_of(p.dtype, p.inner, p.rows)
                        : layout_of(p.dtype, p.rows, p.inner)),
        b(p.transpose_b ? layout_of(p.dtype, p.columns, p.inner)
                        : layout_of(p.dtype, p.inner, p.columns)),
        d(layout_of(p.dtype, p.rows, p.columns)) {}

  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t a, b, d;
};

MatrixPlan::MatrixPlan(std::shared_ptr<const Described> product,
                       const cublasLtMatmulHeuristicResult_t& found)
    : name(name_of(found.algo)),
      workspace_bytes(found.workspaceSize),
      product_(std::move(product)),
      algorithm_(found.algo) {}

std::function<void()> MatrixPlan::bind(const void* a, const void* b, void* d, void* vector,
                                       void* workspace) const {
  Described own = *product_;
  if (vector) set(own.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  return [=, algorithm = algorithm_, bytes = workspace_bytes]() mutable {
    constexpr float kOne = 1, kZero = 0;
    const std::lock_guard lock(capture_mutex());
    expect(cublaslt().multiply(handle(), &own.product, &kOne, a, &own.a, b, &own.b, &kZero, d,
                               &own.d, d, &own.d, &algorithm, workspace, bytes, current_stream()),
           "giving a GPU work");
  };
}

std::vector<MatrixPlan> matrix_plans(const MatrixProduct& product, int gpu) {
  const std::lock_guard lock(capture_mutex());
  use_device(gpu);
  const auto described = std::make_shared<MatrixPlan::Described>(product);
  auto asked = described->product;
  if (product.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    // There may be plans only for a known address.
    alignas(kAlignment) static float somewhere;
    set(asked, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(&somewhere));
  }
  cublasLtMatmulPreferenceOpaque_t preference;
  expect(cublaslt().init_preference(&preference, sizeof preference), kDescribing);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  // Parts of sums that are added up afterwards, in f32 and in one order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto name :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, name, kAlignment);
  }
  cublasLtMatmulHeuristicResult_t results[kMostPlans];
  int found = 0;
  const cublasStatus_t status =
      cublaslt().find(handle(), &asked, &described->a, &described->b, &described->d, &described->d,
                      &preference, kMostPlans, results, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  expect(status, "asking cuBLASLt for a product");
  std::vector<MatrixPlan> plans;
  for (int i = 0; i < found; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS) plans.push_back({described, results[i]});
  }
  return plans;
}

std::string cublaslt_version() {
  const size_t version = cublaslt().version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace crossbow::cuda
