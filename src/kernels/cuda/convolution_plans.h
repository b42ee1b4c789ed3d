// What cuDNN has for a convolution: choices that can be made, and sized, also for a GPU that is
// only described. Activations and weights lie with their channels last.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "device/cuda/cudnn.h"
#include "ops/conv2d.h"

namespace crossbow::cuda {

/// A convolution or one of its gradients. A dense layer is one, of images of one pixel.
struct Convolution {
  enum class Pass { forward, grad_input, grad_weights };
  Pass pass;
  Shape x, weights, y;
  WindowAxes axes;
  DType dtype;        // f32 or bf16: cuDNN has no plan with bf16 here and f32 there; sums are f32
  bool tf32 = false;  // f32's operands may be rounded

  /// Of a node of op conv2d, dense or one of their gradients.
  static Convolution of(const Graph& graph, const Node& node, DType dtype, bool tf32 = false);
  /// Identifies it among the choices of a GPU.
  std::string key() const;
};

class ConvolutionPlan {
 public:
  ConvolutionPlan(std::string name, size_t workspace_bytes, CudnnObject plan)
      : name(std::move(name)),
        workspace_bytes(workspace_bytes),
        plan_(std::make_shared<const CudnnObject>(std::move(plan))) {}

  std::string name;  // cuDNN's engine and its settings: "engine 67, 2=11 9=1"
  size_t workspace_bytes;

  /// A function that gives the work to the queue whose call the thread makes. All addresses are of
  /// the GPU's memory, to 16 bytes.
  std::function<void()> bind(void* x, void* weights, void* y, void* workspace) const;

 private:
  std::shared_ptr<const CudnnObject> plan_;
};

/// The first dozen in cuDNN's order of merit. Each gives the same bits every time. In f32 without
/// TF32 all products are IEEE's; none of them by large Winograd tiles, which are less exact.
std::vector<ConvolutionPlan> convolution_plans(const Convolution& convolution,
                                               const CudnnObject& gpu);

}  // namespace crossbow::cuda
