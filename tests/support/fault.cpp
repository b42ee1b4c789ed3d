#include "support/fault.h"

#include <algorithm>

#include "graph/op.h"
#include "kernels/ref/ref.h"

namespace crossbow::testing {
namespace {

WithFaults::At fault_at;

template <typename T>
void copy(const ref::Run& run) {
  if (fault_at) {
    fault_at(run.step.epoch, static_cast<int64_t>(run.step.first_sample));
  }
  const T* const x = run.in<T>(0);
  std::copy(x, x + run.out_shape().elements(), run.out<T>());
}

std::vector<TensorType> infer(const Node&, std::span<const TensorType> in) {
  return {in[0]};
}

void gradient(GradientContext& c) {
  c.set(0, c.output_gradient());
}

std::vector<Case> cases() {
  return {{"4 x 3", [](CaseBuilder& b) { return fault(b.input({4, 3})); }}};
}

const Op& kFault =
    register_op({.name = "fault", .infer = infer, .gradient = gradient, .cases = cases});
const RegisterKernel kRef{"ref", "fault", ref::prepare<copy<float>, copy<double>>};
const RegisterKernel kCpu{"cpu", "fault", [](const PrepareContext& context) {
                            PrepareContext c = context;
                            c.precision = DType::f32;  // also where others compute in bf16
                            return ref::prepare<copy<float>, copy<double>>(c);
                          }};

}  // namespace

Tensor fault(Tensor x) {
  return x.graph->append(kFault, {x.value}, nullptr);
}

WithFaults::WithFaults(At at) {
  fault_at = std::move(at);
}

WithFaults::~WithFaults() {
  fault_at = nullptr;
}

}  // namespace crossbow::testing
