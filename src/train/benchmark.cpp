#include "train/benchmark.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "core/rng.h"
#include "plan/tuner.h"
#include "train/learner.h"
#include "train/recipe.h"

namespace crossbow {
namespace {

using Clock = std::chrono::steady_clock;

// Small, so that the weights stay ordinary numbers however long the noise is learned.
constexpr double kLearningRate = 1e-5;
constexpr int64_t kBatches = 8;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Batches of noise, served in turn.
class Noise {
 public:
  explicit Noise(const ModelSpec& spec) {
    const int64_t pixels = spec.batch * spec.image.elements();
    Rng rng(0, Purpose::synthetic);
    for (Batch& batch : batches_) {
      batch.images = Buffer(static_cast<size_t>(pixels) * sizeof(float));
      batch.labels = Buffer(static_cast<size_t>(spec.batch) * sizeof(int32_t));
      std::generate_n(batch.images.as<float>(), pixels, [&] { return rng.uniform(-1, 1); });
      std::generate_n(batch.labels.as<int32_t>(), spec.batch, [&] {
        return static_cast<int32_t>(rng.below(static_cast<uint32_t>(spec.classes)));
      });
    }
  }

  Step next() {
    const Batch& batch = batches_[static_cast<size_t>(index_ % kBatches)];
    Step step;
    step.inputs = {batch.images.data(), batch.labels.data()};
    step.first_sample = static_cast<uint64_t>(index_++);
    return step;
  }

 private:
  struct Batch {
    Buffer images, labels;
  };
  std::array<Batch, kBatches> batches_;
  int64_t index_ = 0;
};

/// Steps a second over at least `seconds` and two steps.
double step_rate(Learner& learner, Noise& noise, int64_t rows, double seconds) {
  const auto start = Clock::now();
  double elapsed = 0;
  int64_t steps = 0;
  while (steps < 2 || elapsed < seconds) {
    learner.step(noise.next(), rows, kLearningRate);
    ++steps;
    elapsed = seconds_since(start);
  }
  return static_cast<double>(steps) / elapsed;
}

std::vector<BenchmarkResult::OpTime> time_ops(Learner& learner, const Program& program,
                                              Noise& noise, double seconds) {
  std::vector<double> op_seconds(program.ops().size() + 1);
  const auto start = Clock::now();
  int64_t steps = 0;
  while (steps < 2 || seconds_since(start) < seconds) {
    learner.timed_step(noise.next(), kLearningRate, op_seconds);
    ++steps;
  }
  const double sum = std::accumulate(op_seconds.begin(), op_seconds.end(), 0.0);
  std::vector<BenchmarkResult::OpTime> ops;
  const auto add = [&](const Program::Op& op, double s) {
    ops.push_back({op.name, op.kind, op.implementation, s / static_cast<double>(steps) * 1e3,
                   s / sum, op.flops});
  };
  for (size_t i = 0; i < program.ops().size(); ++i) add(program.ops()[i], op_seconds[i]);
  if (op_seconds.back() > 0) add({"update", "sgd", "sgd"}, op_seconds.back());
  return ops;
}

}  // namespace

BenchmarkResult benchmark(const TrainOptions& options, double seconds) {
  constexpr size_t kWindows = 5;
  omp_set_num_threads(static_cast<int>(*options.threads_per_learner));
  const ModelSpec spec = spec_of(options);
  Tuner tuner;
  CompiledModel model(build_model(options.model, spec), compile_options(options, &tuner));
  const auto program = model.training(options.batch);
  const Buffer arena(model.arena_bytes());
  Learner learner(model, options.batch, 0, arena, sgd_of(options));
  initialise(learner.layout(), learner.replica(), options.seed);
  Noise noise(spec);

  step_rate(learner, noise, options.batch, std::min(1.0, seconds / 4));  // warms caches and clocks
  std::array<double, kWindows> rates;
  for (double& rate : rates) rate = step_rate(learner, noise, options.batch, seconds / kWindows);
  std::sort(rates.begin(), rates.end());

  const auto batch = static_cast<double>(options.batch);
  BenchmarkResult r;
  r.options = options;
  r.images_per_second = rates[kWindows / 2] * batch;
  r.slowest_window = rates.front() * batch;
  r.fastest_window = rates.back() * batch;
  r.step_ms = 1e3 / rates[kWindows / 2];
  r.flops_per_image = program->flops() / batch;
  r.arena_bytes = program->arena_bytes();
  r.arena_bytes_without_reuse = program->arena_bytes_without_reuse();
  r.parameters = program->parameters()->trained();
  r.ops = time_ops(learner, *program, noise, seconds / 2);
  r.bound = measure_bound(*program);
  return r;
}

}  // namespace crossbow
