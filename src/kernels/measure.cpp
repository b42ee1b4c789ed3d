#include "kernels/measure.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/text.h"

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

/// A kernel with a queue of its own, and memory of its own to write to.
class Trial {
 public:
  Trial(const PreparedKernel& kernel, const std::vector<Buffer>& inputs, Device& device)
      : step_(device.allocate_zeroed(sizeof(Step))), queue_(device.make_queue()) {
    Operands operands;
    for (const Buffer& input : inputs) operands.inputs.push_back(input.data());
    for (const Layout& layout : kernel.outputs) {
      operands.outputs.push_back(memory_.emplace_back(device.allocate(layout.bytes())).data());
    }
    operands.scratch = memory_.emplace_back(device.allocate(kernel.scratch_bytes)).data();
    call_ = queue_->bind(kernel.bind, std::move(operands));
    give();
    queue_->finish();
    // In a training step it is recorded too: to give it costs nothing there, nor to wait for it.
    recording_ = queue_->record([&] {
      for (int i = 0; i < kRecorded; ++i) give();
    });
  }

  int runs() const { return recording_ ? kRecorded : 1; }
  void start() const { recording_ ? recording_->replay() : give(); }
  void finish() const { queue_->finish(); }

 private:
  static constexpr int kRecorded = 20;

  void give() const { call_(*step_.as<const Step>()); }

  std::vector<Buffer> memory_;
  const Buffer step_;
  const std::unique_ptr<Queue> queue_;
  Call call_;
  std::unique_ptr<const Recording> recording_;
};

/// Easily.
bool fits(const PreparedKernel& kernel, const Device& device, int copies) {
  size_t bytes = kernel.scratch_bytes;
  for (const Layout& layout : kernel.outputs) bytes += layout.bytes();
  return 2 * copies * mebibytes(static_cast<double>(bytes)) < device.free_memory_mb();
}

}  // namespace

double measure(const PreparedKernel& kernel, Device& device, int copies) {
  if (copies > 1 && !fits(kernel, device, copies)) copies = 1;
  std::vector<Buffer> inputs;
  for (const Layout& layout : kernel.inputs) inputs.push_back(sample(layout, device));
  std::vector<std::unique_ptr<Trial>> trials;
  for (int i = 0; i < copies; ++i) {
    trials.push_back(std::make_unique<Trial>(kernel, inputs, device));
  }
  const double seconds = least_seconds([&] {
    for (const auto& trial : trials) trial->start();
    for (const auto& trial : trials) trial->finish();
  });
  int runs = 0;
  for (const auto& trial : trials) runs += trial->runs();
  return seconds / runs;
}

PreparedKernel choose(const PrepareContext& context, const std::string& key,
                      std::vector<PreparedKernel> candidates) {
  if (candidates.empty()) fail("layer {}: no implementation for {}", context.node.name, key);
  if (candidates.size() == 1 || !context.chooser) return std::move(candidates.front());
  std::vector<std::string> names;
  for (const PreparedKernel& c : candidates) names.push_back(c.implementation);
  const int copies = context.crowded ? context.device.crowd() : 1;
  const std::string among = copies > 1 ? fmt::format("{}, {} at a time", key, copies) : key;
  return std::move(candidates[context.chooser->choose(
      among, names, [&](size_t i) { return measure(candidates[i], context.device, copies); })]);
}

}  // namespace crossbow
