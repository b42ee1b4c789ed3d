#include "kernels/measure.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"

namespace crossbow {
namespace {

using Clock = std::chrono::steady_clock;

/// Small numbers of both signs in any element type.
Buffer sample(const Layout& layout, Device& device) {
  const Buffer values(layout.bytes());
  for (int64_t i = 0; i < layout.elements(); ++i) {
    const float value = static_cast<float>(i % 13 - 6) / 8;
    if (layout.dtype == DType::f32) values.as<float>()[i] = value;
    if (layout.dtype == DType::bf16) values.as<bf16>()[i] = value;
  }
  Buffer buffer = device.allocate(values.size());
  device.copy_now(buffer.data(), values.data(), values.size());
  return buffer;
}

/// The least of some runs, after one that counts for nothing.
template <typename F>
double least_seconds(const F& run) {
  run();
  double least = 1e9, total = 0;
  for (int runs = 0; runs < 20 && (runs < 5 || total < 0.02); ++runs) {
    const auto start = Clock::now();
    run();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    least = std::min(least, seconds);
    total += seconds;
  }
  return least;
}

}  // namespace

double measure(const PreparedKernel& kernel, Device& device) {
  std::vector<Buffer> memory;
  Operands operands;
  for (const Layout& layout : kernel.inputs) {
    operands.inputs.push_back(memory.emplace_back(sample(layout, device)).data());
  }
  for (const Layout& layout : kernel.outputs) {
    operands.outputs.push_back(memory.emplace_back(device.allocate(layout.bytes())).data());
  }
  operands.scratch = memory.emplace_back(device.allocate(kernel.scratch_bytes)).data();
  const Buffer step = device.allocate_zeroed(sizeof(Step));
  const auto queue = device.make_queue();
  const Call call = queue->bind(kernel.bind, std::move(operands));
  const auto run = [&] { call(*step.as<const Step>()); };
  run();
  queue->finish();
  // In a training step it is recorded too: to give it costs nothing there, nor to wait for it.
  constexpr int kRecorded = 20;
  const auto recording = queue->record([&] {
    for (int i = 0; i < kRecorded; ++i) run();
  });
  if (!recording) {
    return least_seconds([&] {
      run();
      queue->finish();
    });
  }
  return least_seconds([&] {
           recording->replay();
           queue->finish();
         }) /
         kRecorded;
}

PreparedKernel choose(const PrepareContext& context, const std::string& key,
                      std::vector<PreparedKernel> candidates) {
  if (candidates.empty()) fail("layer {}: no implementation for {}", context.node.name, key);
  if (candidates.size() == 1 || !context.chooser) return std::move(candidates.front());
  std::vector<std::string> names;
  for (const PreparedKernel& c : candidates) names.push_back(c.implementation);
  return std::move(candidates[context.chooser->choose(
      key, names, [&](size_t i) { return measure(candidates[i], context.device); })]);
}

}  // namespace crossbow
