#include "kernels/measure.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/error.h"
#include "core/seconds_since.h"
#include "core/text.h"

namespace crossbow {
namespace {

/// Small numbers of both signs in any element type.
template <typename T>
void fill(T* values, int64_t elements) {
  constexpr int64_t kPeriod = 13;
  for (int64_t i = 0; i < std::min(elements, kPeriod); ++i) {
    values[i] = static_cast<float>(i - 6) / 8;
  }
  for (int64_t done = kPeriod; done < elements; done *= 2) {
    std::copy_n(values, std::min(done, elements - done), values + done);
  }
}

/// Made-up inputs in a device's memory, one of each layout.
class Samples {
 public:
  explicit Samples(Device& device) : device_(device) {}

  void* of(const Layout& layout) {
    for (const auto& [known, buffer] : all_) {
      if (known == layout) return buffer.data();
    }
    const Buffer values(layout.bytes());
    if (layout.dtype == DType::f32) fill(values.as<float>(), layout.elements());
    if (layout.dtype == DType::bf16) fill(values.as<bf16>(), layout.elements());
    const Buffer& buffer = all_.emplace_back(layout, device_.allocate(values.size())).second;
    device_.copy_now(buffer.data(), values.data(), values.size());
    return buffer.data();
  }
  Device& device() const { return device_; }

 private:
  Device& device_;
  std::vector<std::pair<Layout, Buffer>> all_;
};

/// The least of some runs, after one that counts for nothing; `enough`: seconds of them.
template <typename F>
double least_seconds(double enough, const F& run) {
  run();
  double least = 1e9, total = 0;
  for (int runs = 0; runs < 20 && (runs < 5 || total < enough); ++runs) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const double seconds = seconds_since(start);
    least = std::min(least, seconds);
    total += seconds;
  }
  return least;
}

/// A kernel with a queue of its own, and memory of its own to write to.
class Trial {
 public:
  Trial(const PreparedKernel& kernel, Samples& samples)
      : step_(samples.device().allocate_zeroed(sizeof(Step))),
        queue_(samples.device().make_queue()) {
    Device& device = samples.device();
    Operands operands;
    for (const Layout& layout : kernel.inputs) operands.inputs.push_back(samples.of(layout));
    for (const Layout& layout : kernel.outputs) {
      operands.outputs.push_back(memory_.emplace_back(device.allocate(layout.bytes())).data());
    }
    operands.scratch = memory_.emplace_back(device.allocate(kernel.scratch_bytes)).data();
    call_ = queue_->bind(kernel.bind, std::move(operands));
    give();
    queue_->finish();
    const auto start = std::chrono::steady_clock::now();
    give();
    queue_->finish();
    const double seconds = seconds_since(start);
    recorded_ = std::clamp(static_cast<int>(kLong / std::max(seconds, 1e-9)), 1, kMostRecorded);
    // In a training step it is recorded too: to give it costs nothing there, nor to wait for it.
    recording_ = queue_->record([&] {
      for (int i = 0; i < recorded_; ++i) give();
    });
  }

  int runs() const { return recording_ ? recorded_ : 1; }
  void start() const { recording_ ? recording_->replay() : give(); }
  void finish() const { queue_->finish(); }

 private:
  static constexpr int kMostRecorded = 20;
  static constexpr double kLong = 1e-3;  // beside what it costs to give a recording, and to wait

  void give() const { call_(*step_.as<const Step>()); }

  std::vector<Buffer> memory_;
  const Buffer step_;
  const std::unique_ptr<Queue> queue_;
  Call call_;
  int recorded_ = 1;
  std::unique_ptr<const Recording> recording_;
};

/// What a Trial takes, but for samples.
double memory_mb(const PreparedKernel& kernel) {
  size_t bytes = kernel.scratch_bytes;
  for (const Layout& layout : kernel.outputs) bytes += layout.bytes();
  return mebibytes(static_cast<double>(bytes));
}

/// Infinite where a device has too little memory for the kernel.
double measure(const PreparedKernel& kernel, Samples& samples, int copies) {
  if (!samples.device().is_host()) {
    for (const Layout& layout : kernel.inputs) samples.of(layout);
    const double free = samples.device().free_memory_mb(), of_one = memory_mb(kernel);
    if (of_one > free) return std::numeric_limits<double>::infinity();
    if (2 * copies * of_one > free) copies = 1;  // several only where they fit easily
  }
  std::vector<std::unique_ptr<Trial>> trials;
  for (int i = 0; i < copies; ++i) trials.push_back(std::make_unique<Trial>(kernel, samples));
  // Others may take a core of the host's for a while.
  const double enough = samples.device().is_host() ? 0.02 : 0.005;
  const double seconds = least_seconds(enough, [&] {
    for (const auto& trial : trials) trial->start();
    for (const auto& trial : trials) trial->finish();
  });
  int runs = 0;
  for (const auto& trial : trials) runs += trial->runs();
  return seconds / runs;
}

bool is_parameter(const PrepareContext& c, size_t input) {
  return c.graph.node(c.node.inputs[input]).op->name == "parameter";
}

struct Conversion {
  Layout from, to;
  bool operator==(const Conversion&) const = default;
};

/// What the plan may add before `kernel`: for what others compute, from what is offered; for
/// weights, if they are not read in f32. (How these will lie is not known yet.) What several
/// readers share counts for each of them.
std::vector<Conversion> conversions(const PrepareContext& c, const PreparedKernel& kernel) {
  std::vector<Conversion> all;
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    if (!c.node.inputs[i]) continue;
    const Layout& read = kernel.inputs[i];
    if (is_parameter(c, i)) {
      if (read.dtype != DType::f32) all.push_back({read.with_dtype(DType::f32), read});
    } else if (c.offered[i] && *c.offered[i] != read) {
      all.push_back({*c.offered[i], read});
    }
  }
  return all;
}

/// Of all that others compute.
std::string offered_text(const PrepareContext& c) {
  std::string text;
  for (size_t i = 0; i < c.offered.size(); ++i) {
    if (c.offered[i] && !is_parameter(c, i)) text += ", of " + c.offered[i]->str();
  }
  return text;
}

}  // namespace

double measure(const PreparedKernel& kernel, Device& device) {
  Samples samples(device);
  return measure(kernel, samples, 1);
}

PreparedKernel choose(const PrepareContext& context, const std::string& key,
                      std::vector<PreparedKernel> candidates) {
  if (candidates.empty()) fail("layer {}: no implementation for {}", context.node.name, key);
  if (candidates.size() == 1 || !context.chooser) return std::move(candidates.front());
  std::vector<std::string> names;
  for (const PreparedKernel& k : candidates) names.push_back(k.implementation);
  const int copies = context.crowded ? context.device.crowd() : 1;
  std::string among = copies > 1 ? fmt::format("{}, {} at a time", key, copies) : key;
  std::vector<std::vector<Conversion>> added(candidates.size());
  const bool alike = std::ranges::all_of(
      candidates, [&](const PreparedKernel& k) { return k.inputs == candidates[0].inputs; });
  for (size_t i = 0; i < candidates.size() && !alike; ++i) {
    added[i] = conversions(context, candidates[i]);
  }
  const bool converts = std::ranges::any_of(added, [](const auto& all) { return !all.empty(); });
  if (converts) among += offered_text(context);
  Samples samples(context.device);
  const KernelRegistry& kernels = KernelRegistry::of(context.device.kernels());
  std::vector<std::pair<Conversion, double>> measured;  // candidates have most in common
  const auto seconds_of = [&](const Conversion& wanted) {
    for (const auto& [conversion, seconds] : measured) {
      if (conversion == wanted) return seconds;
    }
    const PreparedKernel kernel = kernels.reorder(wanted.from, wanted.to, context.threads);
    return measured.emplace_back(wanted, measure(kernel, samples, copies)).second;
  };
  return std::move(candidates[context.chooser->choose(among, names, [&](size_t i) {
    double seconds = measure(candidates[i], samples, copies);
    for (const Conversion& conversion : added[i]) seconds += seconds_of(conversion);
    return seconds;
  })]);
}

}  // namespace crossbow
