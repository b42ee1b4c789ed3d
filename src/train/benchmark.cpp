#include "train/benchmark.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/rng.h"
#include "core/seconds_since.h"
#include "plan/tuner.h"

namespace crossbow {
namespace {

// Small, so that the weights stay ordinary numbers however long the noise is learned.
constexpr double kLearningRate = 1e-5;
constexpr size_t kBatches = 8;

/// Rows of about as many numbers as those of the set, in any columns, or in one of each group.
void draw_sparse_rows(const ModelSpec& spec, Rng& rng, std::array<Buffer, kFields>& fields) {
  auto* const values = fields[kValues].as<float>();
  auto* const columns = fields[kColumns].as<int32_t>();
  auto* const extents = fields[kExtents].as<int32_t>();
  const auto draw_below = [&](int64_t n) {
    return static_cast<int32_t>(rng.below(static_cast<uint32_t>(n)));
  };
  const int64_t mean = std::max<int64_t>(std::llround(spec.room->mean), 1);
  const int64_t numbers = std::min(mean, spec.room->of(spec.batch) / spec.batch);
  int32_t end = 0;
  for (int64_t row = 0; row < spec.batch; ++row) {
    extents[2 * row] = end;
    int64_t first = 0;
    for (const int64_t size : spec.groups) {
      columns[end++] = static_cast<int32_t>(first) + draw_below(size);
      first += size;
    }
    for (int64_t i = 0; spec.groups.empty() && i < numbers; ++i) {
      columns[end++] = draw_below(spec.image.elements());
    }
    extents[2 * row + 1] = end;
    std::sort(columns + extents[2 * row], columns + end);
  }
  std::generate_n(values, end, [&] { return rng.uniform(-1, 1); });
}

/// Batches of noise, served in turn.
class Noise : public data::BatchSource {
 public:
  Noise(const ModelSpec& spec, Device& device) {
    const BatchFormat format = spec.batch_format();
    Rng rng(0, Purpose::synthetic);
    for (size_t b = 0; b < kBatches; ++b) {
      FieldAddresses addresses{};
      for (size_t i = 0; i < kFields; ++i) {
        fields_[b][i] = device.allocate_pinned(format.fields[i].bytes(spec.batch));
        addresses[i] = fields_[b][i].data();
      }
      if (spec.room) {
        draw_sparse_rows(spec, rng, fields_[b]);
      } else if (spec.pixels) {
        std::generate_n(fields_[b][kSamples].as<uint8_t>(), spec.batch * spec.image.elements(),
                        [&] { return static_cast<uint8_t>(rng.below(256)); });
      } else {
        std::generate_n(fields_[b][kSamples].as<float>(), spec.batch * spec.image.elements(),
                        [&] { return rng.uniform(-1, 1); });
      }
      if (spec.label != LabelKind::one_class) {
        std::generate_n(fields_[b][kLabels].as<float>(), spec.batch * spec.classes,
                        [&] { return static_cast<float>(rng.below(2)); });
      } else {
        std::generate_n(fields_[b][kLabels].as<int32_t>(), spec.batch, [&] {
          return static_cast<int32_t>(rng.below(static_cast<uint32_t>(spec.classes)));
        });
      }
      batches_[b] = {0, spec.batch, addresses};
    }
  }

  const data::Batch& acquire(int64_t index) override {
    return batches_[static_cast<size_t>(index % kBatches)];
  }
  void release(const data::Batch&) override {}

  Step step(int64_t index) {
    const data::Batch& batch = acquire(index);
    Step step;
    step.inputs = batch.fields;
    step.first_sample = static_cast<uint64_t>(index);
    return step;
  }

 private:
  std::array<std::array<Buffer, kFields>, kBatches> fields_;
  std::array<data::Batch, kBatches> batches_;
};

/// Batches a second over about `seconds`, of all learners together.
double batch_rate(Engine& engine, Noise& noise, std::span<float> losses, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  Segment segment;
  segment.source = &noise;
  segment.epoch_batches = segment.batches = static_cast<int64_t>(losses.size());
  segment.rate = [](int64_t) { return kLearningRate; };
  segment.stop = [&] { return seconds_since(start) >= seconds; };
  segment.losses = losses;
  segment.progress = [](int64_t) {};
  const int64_t batches = engine.run(segment);
  for (const NodeFailure& failure : engine.take_failures()) {
    fail("node {} has failed: {}", failure.node, failure.why);
  }
  return static_cast<double>(batches) / seconds_since(start);
}

/// Of the first learner's step, by the first worker, which calls.
std::vector<BenchmarkResult::OpTime> time_ops(Engine& engine, const Program& program, Noise& noise,
                                              double seconds) {
  std::vector<double> op_seconds(program.kernel_infos().size() + 1);
  const auto start = std::chrono::steady_clock::now();
  int64_t steps = 0;
  while (steps < 2 || seconds_since(start) < seconds) {
    engine.time_step(noise.step(steps), kLearningRate, op_seconds);
    ++steps;
  }
  const double sum = std::accumulate(op_seconds.begin(), op_seconds.end(), 0.0);
  std::vector<BenchmarkResult::OpTime> ops;
  const auto add = [&](const Program::KernelInfo& info, double s) {
    ops.push_back({info.name, info.kind, info.implementation, s / static_cast<double>(steps) * 1e3,
                   s / sum, info.flops});
  };
  for (size_t i = 0; i < program.kernel_infos().size(); ++i)
    add(program.kernel_infos()[i], op_seconds[i]);
  const std::string rule(engine.optimizer().rule->name);
  if (op_seconds.back() > 0) add({"update", rule, rule}, op_seconds.back());
  return ops;
}

constexpr size_t kWindows = 5;

/// An engine that trains on noise.
class Bench {
 public:
  Bench(const ModelSpec& spec, const RunConfig& config, const TeamConfig& team)
      : model_(compiled(config, team, spec)),
        program_(model_.training(config.batch)),
        engine_(config.engine(std::array{&model_}, team,
                              {.rows = config.batch, .format = spec.batch_format()},
                              /*samples=*/0)),
        noise_(spec, engine_->device()) {
    Replica first(engine_->layout(), /*with_gradients=*/false);
    initialise(engine_->layout(), first, config.seed);
    engine_->start_from(first);
  }

  struct Rates {
    std::array<double, kWindows> windows;  // batches a second, ascending
    double sync_work, sync_wait;           // shares of the threads' time
    double median() const { return windows[kWindows / 2]; }
  };

  /// After a warm-up.
  Rates rates(double seconds) {
    batch_rate(*engine_, noise_, losses_, std::min(1.0, seconds / 4));  // warms caches and clocks
    Rates rates;
    const auto before = engine_->sync_seconds();
    const auto start = std::chrono::steady_clock::now();
    for (double& rate : rates.windows)
      rate = batch_rate(*engine_, noise_, losses_, seconds / kWindows);
    const double thread_seconds = seconds_since(start) * engine_->threads();
    const auto after = engine_->sync_seconds();
    rates.sync_work = (after.first - before.first) / thread_seconds;
    rates.sync_wait = (after.second - before.second) / thread_seconds;
    std::sort(rates.windows.begin(), rates.windows.end());
    return rates;
  }

  BenchmarkResult measure(double seconds) {
    BenchmarkResult r;
    const auto batch = static_cast<double>(engine_->batch().rows);
    const Rates all = rates(seconds);
    r.images_per_second = all.median() * batch;
    r.slowest_window = all.windows.front() * batch;
    r.fastest_window = all.windows.back() * batch;
    r.step_ms = 1e3 * static_cast<double>(engine_->learners()) / all.median();
    r.sync_work = all.sync_work;
    r.sync_wait = all.sync_wait;
    r.flops_per_image = program_->flops() / batch;
    r.arena_bytes = program_->arena_bytes();
    r.arena_bytes_without_reuse = program_->arena_bytes_without_reuse();
    r.parameters = program_->parameters()->trained();
    engine_->workers().run([&](int worker) {
      if (worker != 0) return;
      r.ops = time_ops(*engine_, *program_, noise_, seconds / 2);
      r.bound = measure_roofline(*program_, engine_->update_traffic(), engine_->device());
    });
    return r;
  }

 private:
  static CompiledModel compiled(const RunConfig& config, const TeamConfig& team,
                                const ModelSpec& spec) {
    find_device(config.device.kind).expect_team(team.threads.threads);
    Tuner tuner;
    CompiledModel model(config.with_frozen(build_model(config.model, spec)),
                        config.compile_options(team, &tuner));
    model.training(config.batch);
    return model;
  }

  CompiledModel model_;
  const std::shared_ptr<const Program> program_;
  const std::unique_ptr<Engine> engine_;
  Noise noise_;
  std::vector<float> losses_ = std::vector<float>(1 << 20);  // of more than a window can hold
};

const TeamConfig& fastest(const ModelSpec& spec, const RunConfig& config, double seconds) {
  const TeamConfig* best = &config.teams.front();
  if (config.teams.size() == 1) return *best;
  double most = 0;
  for (const TeamConfig& team : config.teams) {
    try {
      const double rate = Bench(spec, config, team).rates(seconds).median();
      if (rate > most) best = &team;
      most = std::max(most, rate);
    } catch (const Error&) {  // most likely a GPU's memory is short, for all that follow too
      if (most == 0 || find_device(config.device.kind).is_host()) throw;
      break;
    }
  }
  return *best;
}

}  // namespace

BenchmarkResult benchmark(const RunConfig& config, const ModelSpec& spec, double seconds) {
  if (has_unlike_workers(config.options.sync)) {
    fail_usage(
        "`sync` {}: its workers are measured as they train; `crossbow train` tells how busy "
        "each has been",
        config.options.sync);
  }
  const TeamConfig& team = fastest(spec, config, seconds / 4);
  BenchmarkResult result = Bench(spec, config, team).measure(seconds);
  result.arrangement = team.arrangement;
  return result;
}

}  // namespace crossbow
