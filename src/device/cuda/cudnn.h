// cuDNN's graph API, which is loaded when something first asks for it, so that a program runs where
// it is missing.
#pragma once

#include <cudnn_graph.h>

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace crossbow::cuda {

/// cuDNN's name for the type of an attribute.
template <typename T>
consteval cudnnBackendAttributeType_t attribute_type() {
  if (std::is_same_v<T, int64_t>) return CUDNN_TYPE_INT64;
  if (std::is_same_v<T, int32_t>) return CUDNN_TYPE_INT32;
  if (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
  if (std::is_same_v<T, cudnnBackendKnobType_t>) return CUDNN_TYPE_KNOB_TYPE;
  throw "not a type that we set or get";
}

/// Owns one of cuDNN's objects: attributes are set, then it is finished and may be asked. All calls
/// throw Error with cuDNN's reason; the first throws Error if there is no cuDNN 9.8 or later.
class CudnnObject {
 public:
  explicit CudnnObject(cudnnBackendDescriptorType_t type);
  ~CudnnObject();
  CudnnObject(CudnnObject&& other) noexcept;
  CudnnObject& operator=(CudnnObject&& other) noexcept;

  template <typename T>
  void set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set(name, attribute_type<T>(), static_cast<int64_t>(values.size()), values.data());
  }
  template <typename T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set(name, std::span(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const CudnnObject& object) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &object.object_);
  }
  /// True where cuDNN refuses the attributes as something that it does not support.
  [[nodiscard]] bool is_unsupported_when_finished();
  void finish();

  template <typename T>
  std::vector<T> get(cudnnBackendAttributeName_t name) const {
    std::vector<T> values(static_cast<size_t>(get(name, attribute_type<T>(), 0, nullptr)));
    if (!values.empty()) get(name, attribute_type<T>(), values.size(), values.data());
    return values;
  }
  /// As many as there are, if no more than `most`.
  std::vector<CudnnObject> get_objects(cudnnBackendAttributeName_t name,
                                       cudnnBackendDescriptorType_t type, int64_t most) const;
  /// By the queue whose call this thread makes: runs this plan with those operands.
  void execute(const CudnnObject& operands) const;

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  /// Returns how many there are.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t most,
              void* values) const;

  cudnnBackendDescriptor_t object_ = nullptr;
};

/// Does what this thread's calls would do at first and a stream that is recorded must not. Nothing
/// where cuDNN is not in use.
void make_cudnn_ready();

/// "9.19.0".
std::string cudnn_version();

/// What cuDNN knows of a GPU and chooses by: of this machine's, or of one that is described as
/// cuDNN describes those that are there.
CudnnObject gpu_properties(int index);
CudnnObject gpu_properties(std::string_view json);

}  // namespace crossbow::cuda
