#include "learner/learner.h"

#include <chrono>

namespace crossbow {

Learner::Learner(CompiledModel& model, const LearnerPlan& plan,
                 std::span<const Buffer* const> arenas)
    : plan_(plan),
      math_(vector_math(model.options().device, model.parameters()->dtype)),
      elements_(model.parameters()->parameter_elements),
      programs_update_(model.options().update) {
  const ParameterLayout& layout = *model.parameters();
  const size_t bytes = static_cast<size_t>(elements_) * size_of(layout.dtype);
  const bool pulled = plan.central[0] != nullptr, shared = plan.shared_weights != nullptr;
  if (!shared) weights_[0] = Buffer(bytes);
  if (pulled) weights_[1] = Buffer(bytes);
  if (!shared && plan.sgd.momentum > 0) momentum_ = Buffer(bytes);
  if (!programs_update_) gradients_ = Buffer(bytes);
  states_ = Buffer(static_cast<size_t>(layout.state_elements) * size_of(layout.dtype));

  std::vector<Route> routes;
  if (pulled) routes = {{0, 1}, {1, 0}};
  if (!pulled || plan.stays) routes.push_back({0, 0});
  if (pulled && plan.stays) routes.push_back({1, 1});
  bound_.resize(arenas.size() * 8);
  for (size_t worker = 0; worker < arenas.size(); ++worker) {
    if (!arenas[worker]) continue;
    for (const Route route : routes) {
      ReplicaView view;
      view.parameters = weights(route.from);
      view.next_parameters = weights(route.to);
      view.gradients = gradients_.data();
      view.momentum = momentum_.data();
      view.states = states_.data();
      view.central = plan.central[static_cast<size_t>(route.from)];
      const auto bind = [&](int64_t rows, bool last) {
        bound_[index(static_cast<int>(worker), route, last)] =
            std::make_unique<const Bound>(model.training(rows), view, *arenas[worker]);
      };
      bind(plan.rows, false);
      if (plan.last_rows > 0) bind(plan.last_rows, true);
    }
  }
}

void Learner::update(SgdStep step, Route route) {
  step.gradient_scale = clip_scale(plan_.sgd.clip_norm, math_.squared_norm(gradients(), elements_));
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
  const Bound& bound = *bound_[index(worker, route, false)];
  bound.execution.run_timed(step, seconds.first(seconds.size() - 1));
  if (!updates_afterwards()) return;
  const auto start = std::chrono::steady_clock::now();
  update(step.sgd, route);
  seconds.back() += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace crossbow
