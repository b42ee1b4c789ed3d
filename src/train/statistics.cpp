#include "train/statistics.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "comm/world.h"
#include "device/vector_math.h"

namespace crossbow {

Statistics::Statistics(CompiledModel& model, const Replica& replica, Workers& workers,
                       std::span<const Workspace> workspaces, const data::Dataset& dataset,
                       const data::PipelineOptions& pipeline, int64_t images)
    : device_(*replica.device),
      workers_(workers),
      workspaces_(workspaces),
      dtype_(model.parameters()->dtype),
      elements_(model.parameters()->state_elements),
      pipeline_(dataset, dataset.train, pipeline),
      batches_(batches(pipeline_.samples(), pipeline.batch, images)),
      mean_(device_.allocate(replica.states.size())) {
  const auto program = model.statistics(pipeline.batch);
  for (const Workspace& workspace : workspaces) {
    ReplicaView view;
    view.parameters = view.next_parameters = replica.parameters.data();
    view.frozen = replica.frozen.data();
    view.states = states_.emplace_back(device_.allocate(replica.states.size())).data();
    bound_.emplace_back(program, view, workspace);
  }
  for (int64_t b = 0; b < batches_; ++b)
    measured_.push_back(device_.allocate(replica.states.size()));
  pipeline_.serve(0, {world_rank(), 1, world_size()});
}

void Statistics::apply(Replica& replica, int64_t samples) {
  if (samples != samples_) measure(replica);
  samples_ = samples;
  Queue& queue = workspaces_[0].queue();
  queue.copy(replica.states.data(), mean_.data(), mean_.size());
  queue.finish();
}

void Statistics::measure(const Replica& replica) {
  const int rank = world_rank(), ranks = world_size();
  std::atomic<int64_t> next{0};
  const auto next_own = [&] { return next++ * ranks + rank; };
  pipeline_.start(0);
  workers_.run([&](int worker) {
    const auto w = static_cast<size_t>(worker);
    if (w >= bound_.size()) return;
    Queue& queue = workspaces_[w].queue();
    queue.copy(states_[w].data(), replica.states.data(), mean_.size());
    for (int64_t b = next_own(); b < batches_; b = next_own()) {
      const data::Batch& batch = pipeline_.acquire(b);
      Step step;
      step.inputs = batch.fields;
      step.first_sample = static_cast<uint64_t>(b * batch.rows);
      bound_[w].run(step);
      queue.copy(measured_[static_cast<size_t>(b)].data(), states_[w].data(), mean_.size());
      queue.finish();
      pipeline_.release(batch);
    }
  });
  if (World* const all = world()) merge(*all);
  const std::vector<double> shares(measured_.size(), 1 / static_cast<double>(measured_.size()));
  std::vector<const void*> terms;
  for (const Buffer& measured : measured_) terms.push_back(measured.data());
  workers_.run([&](int worker) {
    if (worker > 0) return;
    workspaces_[0].queue().math(dtype_).combine(shares, terms, mean_.data(), elements_);
  });
}

void Statistics::merge(World& all) {
  const auto ranks = static_cast<size_t>(all.size());
  const size_t bytes = mean_.size();
  std::vector<std::byte> own;
  for (auto b = static_cast<size_t>(all.rank()); b < measured_.size(); b += ranks) {
    own.resize(own.size() + bytes);
    device_.copy_now(own.data() + own.size() - bytes, measured_[b].data(), bytes);
  }
  const auto gathered = all.all_gather(own);
  for (size_t b = 0; b < measured_.size(); ++b) {
    device_.copy_now(measured_[b].data(), gathered[b % ranks].data() + b / ranks * bytes, bytes);
  }
}

}  // namespace crossbow
