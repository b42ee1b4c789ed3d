// Asynchronous nodes on the problem of quadratic.h.
#pragma once

#include "learner/async_engine.h"
#include "learner/quadratic.h"

namespace crossbow::testing {

constexpr uint64_t kAsyncSeed = 5;

struct AsyncRun {
  std::string sync;
  AsyncOptions options;
  double clip_norm = 0, weight_decay = 0;
  int workers = 2;
  int64_t splits = 1;
  std::string device = "ref";
  int64_t hidden = 0;
  bool faulty = false;     // its steps may fail, see support/fault.h
  World* world = nullptr;  // of ranks that have as many nodes each
  AsyncSettings settings = {.clock = AsyncSettings::Clock::virtual_time,
                            .pace = {.spread = 0.3, .slowness = {1, 1, 4}}};

  int nodes() const {  // here
    return static_cast<int>(options.sync.learners) / (world ? world->size() : 1);
  }
  Optimizer optimizer() const {
    return make_sgd({options.sync.momentum, weight_decay, options.sync.nesterov});
  }
};

class AsyncRunner {
 public:
  explicit AsyncRunner(const AsyncRun& run)
      : kind_(run.device),
        model_(regression(run.hidden, run.faulty), compile_options(run)),
        engine_(compiled(run), make_async(run.sync, run.options), run.settings,
                engine_options(run)) {
    Replica first(engine_.layout());
    write_first_weights(engine_.layout(), first);
    engine_.start_from(first);
  }

  Segment segment(QuadraticData& data, int64_t first = 0, int64_t batches = kBatches) {
    Segment s = quadratic_segment(data, std::span(losses).subspan(static_cast<size_t>(first)),
                                  first, batches);
    s.rate = rate;
    s.share = {engine_.first_learner(), engine_.learners(), engine_.all_learners()};
    return s;
  }
  int64_t run(QuadraticData& data) { return engine_.run(segment(data)); }
  AsyncEngine* operator->() { return &engine_; }

  std::vector<float> z() { return floats(engine_.snapshot().parameters.data()); }
  std::vector<float> weights(int j) { return floats(engine_.weights(j)); }

  std::vector<float> losses = std::vector<float>(kBatches);
  std::function<double(int64_t)> rate = quadratic_rate;

 private:
  static CompileOptions compile_options(const AsyncRun& run) {
    CompileOptions o;
    o.device = run.device;
    return o;
  }
  static BatchShape batch(const AsyncRun& run) {
    return {kRows, kLastRows, run.splits, BatchFormat::dense(kInputs)};
  }
  static EngineOptions engine_options(const AsyncRun& run) {
    EngineOptions e;
    e.learners = run.nodes();
    e.threads = {1, run.workers, 1, {}};
    e.batch = batch(run);
    e.optimizer = run.optimizer();
    e.clip_norm = run.clip_norm;
    e.seed = kAsyncSeed;
    e.world = run.world;
    return e;
  }
  CompiledModel& compiled(const AsyncRun& run) {
    for (const int64_t rows : batch(run).program_rows()) model_.training(rows);
    return model_;
  }
  std::vector<float> floats(const std::byte* data) {
    return weights_at(engine_.layout(), find_device(kind_), data);
  }

  const std::string kind_;
  CompiledModel model_;
  AsyncEngine engine_;
};

}  // namespace crossbow::testing
