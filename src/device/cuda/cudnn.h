// cuDNN's graph API, which is loaded when something first asks for it, so that a program runs where
// it is missing.
#pragma once

#include <cudnn_graph.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crossbow::cuda {

/// Of cuDNN's objects, as far as we use them.
template <typename T>
constexpr cudnnBackendAttributeType_t kCudnnType = CUDNN_TYPE_BACKEND_DESCRIPTOR;
template <>
inline constexpr auto kCudnnType<int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto kCudnnType<int32_t> = CUDNN_TYPE_INT32;
template <>
inline constexpr auto kCudnnType<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto kCudnnType<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto kCudnnType<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto kCudnnType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto kCudnnType<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto kCudnnType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto kCudnnType<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <>
inline constexpr auto kCudnnType<cudnnBackendKnobType_t> = CUDNN_TYPE_KNOB_TYPE;

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
    set(name, kCudnnType<T>, static_cast<int64_t>(values.size()), values.data());
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
    std::vector<T> values(static_cast<size_t>(get(name, kCudnnType<T>, 0, nullptr)));
    if (!values.empty()) get(name, kCudnnType<T>, values.size(), values.data());
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

/// "9.19.0".
std::string cudnn_version();

/// What cuDNN knows of a GPU and chooses by: of this machine's, or of one that json_of() described.
CudnnObject gpu_properties(int index);
CudnnObject gpu_properties(std::string_view json);
std::string json_of(const CudnnObject& properties);

}  // namespace crossbow::cuda
