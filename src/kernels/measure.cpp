#include "kernels/measure.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "device/buffer.h"

namespace crossbow {
namespace {

/// Small numbers of both signs in any element type.
Buffer sample(const Layout& layout) {
  Buffer buffer(layout.bytes());
  const int64_t n = layout.elements();
  for (int64_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(i % 13 - 6) / 8;
    if (layout.dtype == DType::f32) buffer.as<float>()[i] = value;
    if (layout.dtype == DType::bf16) buffer.as<bf16>()[i] = value;
  }
  return buffer;
}

}  // namespace

double measure(const PreparedKernel& kernel) {
  std::vector<Buffer> memory;
  Operands operands;
  for (const Layout& layout : kernel.inputs) {
    operands.inputs.push_back(memory.emplace_back(sample(layout)).data());
  }
  for (const Layout& layout : kernel.outputs) {
    operands.outputs.push_back(memory.emplace_back(layout.bytes()).data());
  }
  operands.scratch = memory.emplace_back(kernel.scratch_bytes).data();
  const Call call = kernel.bind(std::move(operands));
  const Step step;
  call(step);
  using Clock = std::chrono::steady_clock;
  double least = 1e9, total = 0;
  for (int run = 0; run < 20 && (run < 5 || total < 0.02); ++run) {
    const auto start = Clock::now();
    call(step);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    least = std::min(least, seconds);
    total += seconds;
  }
  return least;
}

PreparedKernel choose(const PrepareContext& context, const std::string& key,
                      std::vector<PreparedKernel> candidates) {
  if (candidates.empty()) fail("layer {}: no implementation for {}", context.node.name, key);
  if (candidates.size() == 1 || !context.chooser) return std::move(candidates.front());
  std::vector<std::string> names;
  for (const PreparedKernel& c : candidates) names.push_back(c.implementation);
  return std::move(candidates[context.chooser->choose(
      key, names, [&](size_t i) { return measure(candidates[i]); })]);
}

}  // namespace crossbow
