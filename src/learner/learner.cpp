#include "learner/learner.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"

namespace crossbow {
namespace {

/// Programs that update leave no whole gradient for anything else to be done with it.
void expect_no_use_of_whole_gradient(const LearnerPlan& plan) {
  const char* use = plan.sgd.clip_norm > 0  ? "a clip norm"
                    : plan.batch.splits > 1 ? "a batch in parts"
                    : plan.shared_weights   ? "shared weights"
                                            : nullptr;
  if (use) {
    fail(
        "{} needs the whole gradient before the update: compile the model without "
        "CompileOptions::update",
        use);
  }
}

}  // namespace

std::vector<int64_t> BatchShape::program_rows() const {
  std::vector<int64_t> all{part_rows()};
  for (const int64_t rest : {rows % part_rows(), last_rows % part_rows()}) {
    if (rest > 0 && std::find(all.begin(), all.end(), rest) == all.end()) all.push_back(rest);
  }
  return all;
}

Learner::Learner(CompiledModel& model, const LearnerPlan& plan,
                 std::span<const Buffer* const> arenas)
    : plan_(plan),
      math_(vector_math(model.options().device, model.parameters()->dtype)),
      elements_(model.parameters()->parameter_elements),
      programs_update_(model.options().update),
      program_rows_(plan.batch.program_rows()) {
  if (programs_update_) expect_no_use_of_whole_gradient(plan);
  const ParameterLayout& layout = *model.parameters();
  const size_t bytes = static_cast<size_t>(elements_) * size_of(layout.dtype);
  const bool pulled = plan.central[0] != nullptr, shared = plan.shared_weights != nullptr;
  if (!shared) weights_[0] = Buffer(bytes);
  if (pulled) weights_[1] = Buffer(bytes);
  if (!shared && plan.sgd.momentum > 0) momentum_ = Buffer(bytes);
  if (!programs_update_) gradients_ = Buffer(bytes);
  if (plan.batch.splits > 1) part_gradients_ = Buffer(bytes);
  states_ = Buffer(static_cast<size_t>(layout.state_elements) * size_of(layout.dtype));

  std::vector<Route> routes;
  if (pulled) routes = {{0, 1}, {1, 0}};
  if (!pulled || plan.stays) routes.push_back({0, 0});
  if (pulled && plan.stays) routes.push_back({1, 1});
  bound_.resize(arenas.size() * 4 * program_rows_.size());
  for (size_t worker = 0; worker < arenas.size(); ++worker) {
    if (!arenas[worker]) continue;
    for (const Route route : routes) {
      ReplicaView view;
      view.parameters = weights(route.from);
      view.next_parameters = weights(route.to);
      view.gradients = (plan.batch.splits > 1 ? part_gradients_ : gradients_).data();
      view.momentum = momentum_.data();
      view.states = states_.data();
      view.central = plan.central[static_cast<size_t>(route.from)];
      for (size_t program = 0; program < program_rows_.size(); ++program) {
        bound_[index(static_cast<int>(worker), route, program)] = std::make_unique<const Bound>(
            model.training(program_rows_[program]), view, *arenas[worker]);
      }
    }
  }
}

float Learner::add_up_parts(int worker, Step step, int64_t rows, Route route) {
  double loss = 0;
  for (int64_t first = 0; first < rows; first += plan_.batch.part_rows()) {
    const int64_t n = std::min(plan_.batch.part_rows(), rows - first);
    const Bound& bound = bound_for(worker, route, n);
    bound.execution.run(step);
    const double share = static_cast<double>(n) / static_cast<double>(rows);
    const std::array<double, 2> factors{share, 1};
    const std::array<const void*, 2> terms{part_gradients_.data(), gradients_.data()};
    const size_t count = first == 0 ? 1 : 2;
    math_.combine({factors.data(), count}, {terms.data(), count}, gradients_.data(), elements_);
    loss += share * static_cast<double>(*bound.loss);
    step.inputs = {static_cast<const float*>(step.inputs[0]) + n * plan_.batch.image_elements,
                   static_cast<const int32_t*>(step.inputs[1]) + n};
    step.first_sample += static_cast<uint64_t>(n);
  }
  return static_cast<float>(loss);
}

void Learner::update(SgdStep step, Route route) {
  if (const double limit = plan_.sgd.clip_norm; limit > 0) {
    step.gradient_scale = clip_scale(limit, math_.squared_norm(gradients(), elements_));
  }
  math_.sgd_step(step,
                 {weights(route.from), gradients(), step.momentum > 0 ? momentum() : nullptr,
                  step.pull != 0 ? plan_.central[static_cast<size_t>(route.from)] : nullptr,
                  weights(route.to)},
                 elements_);
}

void Learner::idle_step(double pull, Route route) {
  if (route.from == route.to) return;
  const std::array<double, 2> factors{1 - pull, pull};
  const std::array<const void*, 2> terms{weights(route.from),
                                         plan_.central[static_cast<size_t>(route.from)]};
  math_.combine(factors, terms, weights(route.to), elements_);
}

void Learner::timed_step(int worker, Step step, double lr, double pull, Route route,
                         std::span<double> seconds) {
  step.sgd = sgd_step(plan_.sgd, lr);
  step.sgd.pull = pull;
  const Bound& bound = bound_for(worker, route, plan_.batch.rows);
  bound.execution.run_timed(step, seconds.first(seconds.size() - 1));
  if (!updates_afterwards()) return;
  const auto start = std::chrono::steady_clock::now();
  update(step.sgd, route);
  seconds.back() += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace crossbow
