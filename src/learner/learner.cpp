#include "learner/learner.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/seconds_since.h"
#include "device/hogwild_sgd.h"

namespace crossbow {
namespace {

/// Programs that update leave no whole gradient for anything else to be done with it.
void expect_no_use_of_whole_gradient(const LearnerSetup& setup) {
  const char* use = setup.clip_norm > 0      ? "a clip norm"
                    : setup.batch.splits > 1 ? "a batch in parts"
                    : setup.shared_weights   ? "shared weights"
                    : setup.away             ? "a device elsewhere"
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
  if (!sizes.empty()) return sizes;
  std::vector<int64_t> all{part_rows()};
  for (const int64_t rest : {rows % part_rows(), last_rows % part_rows()}) {
    if (rest > 0 && std::find(all.begin(), all.end(), rest) == all.end()) all.push_back(rest);
  }
  return all;
}

Learner::Learner(CompiledModel& model, const LearnerSetup& setup, Device& device,
                 std::span<const Workspace* const> workspaces)
    : setup_(setup),
      dtype_(model.parameters()->dtype),
      elements_(model.parameters()->parameter_elements),
      programs_update_(model.options().update.has_value()),
      program_rows_(setup.batch.program_rows()),
      workspaces_(workspaces.begin(), workspaces.end()),
      pieces_(model.parameters()->pieces(setup.optimizer, elements_)),
      done_(device.make_event()) {
  assert(setup.optimizer.slots.size() <= kMostSlots);
  if (programs_update_) expect_no_use_of_whole_gradient(setup);
  assert(!setup.takes_first ||
         (setup.shared_slot && setup.optimizer.rule->live && setup.batch.steps == 1));
  assert(!programs_update_ || (model.options().update->rule == setup.optimizer.rule &&
                               model.options().update->slots == setup.optimizer.slots));
  const ParameterLayout& layout = *model.parameters();
  const size_t bytes = static_cast<size_t>(elements_) * size_of(layout.dtype);
  const bool two_sides = setup.pulls_to[1] != nullptr, shared = setup.shared_weights != nullptr;
  assert(!setup.away || (!setup.pulls_to[0] && setup.batch.parts() == 1));
  const auto allocate = [&](size_t n) {
    return setup.away ? setup.away->allocate_pinned(n) : device.allocate_zeroed(n);
  };
  if (!shared) weights_[0] = allocate(bytes);
  if (two_sides) weights_[1] = device.allocate_zeroed(bytes);
  for (size_t i = 0; !shared && !setup.shared_slot && i < setup.optimizer.slots.size(); ++i) {
    slots_.push_back(device.allocate_zeroed(bytes));
  }
  if (!programs_update_) gradients_ = allocate(bytes);
  if (setup.batch.splits > 1) part_gradients_ = device.allocate_zeroed(bytes);
  if (!shared) clip_ = GradientClip(device, setup.clip_norm);
  const size_t state_bytes = static_cast<size_t>(layout.state_elements) * size_of(layout.dtype);
  states_ = allocate(state_bytes);
  if (Device* const away = setup.away) {
    const size_t frozen = static_cast<size_t>(layout.frozen_elements) * size_of(layout.dtype);
    away_ = std::make_unique<const Away>(Away{
        away->allocate_zeroed(bytes), away->allocate_zeroed(bytes),
        away->allocate_zeroed(state_bytes), away->allocate_zeroed(frozen), device.make_queue()});
  }

  std::vector<Route> routes;
  if (two_sides) routes = {{0, 1}, {1, 0}};
  if (!two_sides || setup.stays) routes.push_back({0, 0});
  if (two_sides && setup.stays) routes.push_back({1, 1});
  bound_.resize(workspaces.size() * 4 * program_rows_.size());
  for (size_t worker = 0; worker < workspaces.size(); ++worker) {
    if (!workspaces[worker]) continue;
    for (const Route route : routes) {
      const ReplicaView view = away_ ? away_->view() : this->view(route);
      for (size_t program = 0; program < program_rows_.size(); ++program) {
        bound_[index(static_cast<int>(worker), route, program)] =
            std::make_unique<const BoundProgram>(model.training(program_rows_[program]), view,
                                                 *workspaces[worker], setup.gradient_cuts);
      }
    }
  }
}

ReplicaView Learner::view(Route route) const {
  ReplicaView view;
  view.parameters = weights(route.from);
  view.next_parameters = next_weights(route);
  view.gradients = (setup_.batch.splits > 1 ? part_gradients_ : gradients_).data();
  view.slots = addresses_of(slots_);
  if (setup_.shared_slot) view.slots[0] = setup_.shared_slot;
  view.states = states_.data();
  view.frozen = setup_.frozen;
  view.central = setup_.pulls_to[static_cast<size_t>(route.from)];
  return view;
}

ReplicaView Learner::Away::view() const {
  ReplicaView view;
  view.parameters = view.next_parameters = weights.data();
  view.gradients = gradients.data();
  view.states = states.data();
  view.frozen = frozen.data();
  return view;
}

void Learner::Away::take(Queue& queue, const Learner& learner) const {
  queue.copy(weights.data(), learner.weights(0), weights.size());
  queue.copy(states.data(), learner.states(), states.size());
}

void Learner::take_frozen() const {
  if (away_) setup_.away->copy_now(away_->frozen.data(), setup_.frozen, away_->frozen.size());
}

void Learner::land(Queue& queue, const UpdateStep& step, Route route) {
  queue.copy(gradients_.data(), away_->gradients.data(), gradients_.size());
  queue.copy(states_.data(), away_->states.data(), states_.size());
  queue.finish();
  if (updates_afterwards()) update(*away_->home, step, route);
}

Queue& Learner::begin(int worker) {
  Queue& queue = workspaces_[static_cast<size_t>(worker)]->queue();
  if (worker != last_worker_ && !away_) queue.wait(*done_);
  last_worker_ = worker;
  return queue;
}

void Learner::take_steps(Queue& queue, int worker, Step step, int64_t rows, Route route,
                         std::span<float> losses) {
  const int64_t most = setup_.batch.part_rows();
  for (int64_t first = 0, part = 0; first < rows; first += most, ++part) {
    const int64_t n = std::min(most, rows - first);
    const BoundProgram& bound = bound_for(worker, route, n);
    bound.execution.run(step);
    if (updates_afterwards()) update(queue, step.update, route);
    queue.fetch(&losses[static_cast<size_t>(part)], bound.loss, sizeof(float));
    step.inputs = setup_.batch.format.from_row(step.inputs, n);
    step.first_sample += static_cast<uint64_t>(n);
  }
}

void Learner::add_up_parts(int worker, Step step, int64_t rows, Route route,
                           std::span<float> losses) {
  Queue& queue = workspaces_[static_cast<size_t>(worker)]->queue();
  for (int64_t first = 0, part = 0; first < rows; first += setup_.batch.part_rows(), ++part) {
    const int64_t n = std::min(setup_.batch.part_rows(), rows - first);
    const BoundProgram& bound = bound_for(worker, route, n);
    bound.execution.run(step);
    const double share = static_cast<double>(n) / static_cast<double>(rows);
    const std::array<double, 2> factors{share, 1};
    const std::array<const void*, 2> terms{part_gradients_.data(), gradients_.data()};
    const size_t count = first == 0 ? 1 : 2;
    queue.math(dtype_).combine({factors.data(), count}, {terms.data(), count}, gradients_.data(),
                               elements_);
    queue.fetch(&losses[static_cast<size_t>(part)], bound.loss, sizeof(float));
    step.inputs = setup_.batch.format.from_row(step.inputs, n);
    step.first_sample += static_cast<uint64_t>(n);
  }
}

double Learner::mean_loss(std::span<const float> losses, int64_t rows) const {
  double mean = 0;
  for (int64_t first = 0, part = 0; first < rows; first += setup_.batch.part_rows(), ++part) {
    const int64_t n = std::min(setup_.batch.part_rows(), rows - first);
    mean += static_cast<double>(n) / static_cast<double>(rows) *
            static_cast<double>(losses[static_cast<size_t>(part)]);
  }
  return mean;
}

void Learner::update(Queue& queue, const UpdateStep& step, Route route) {
  const VectorMath& math = queue.math(dtype_);
  clip_.find_scale(math, gradients(), elements_);
  const std::byte* const central = setup_.pulls_to[static_cast<size_t>(route.from)];
  std::byte* const next = next_weights(route);
  for (const auto& [first, elements, decay] : pieces_) {
    const int64_t at = first * static_cast<int64_t>(size_of(dtype_));
    SlotAddresses slots = addresses_of(slots_, at);
    if (setup_.shared_slot) slots[0] = setup_.shared_slot + at;
    math.update(
        *setup_.optimizer.rule, step,
        {weights(route.from) + at, gradients() + at, slots, central ? central + at : nullptr,
         next ? next + at : nullptr, clip_.scale(), decay},
        elements);
  }
}

void Learner::idle_step(int worker, double pull, Route route) {
  if (pull == 0 && route.from == route.to) return;
  Queue& queue = begin(worker);
  const std::array<double, 2> factors{1 - pull, pull};
  const std::array<const void*, 2> terms{weights(route.from),
                                         setup_.pulls_to[static_cast<size_t>(route.from)]};
  queue.math(dtype_).combine(factors, terms, weights(route.to), elements_);
}

void Learner::take_shared(int worker) {
  Queue& queue = away_ ? *away_->home : begin(worker);
  UpdateSpans spans{};
  spans.slots[0] = setup_.shared_slot;
  spans.next = weights_[0].data();
  queue.math(dtype_).update(kTakeShared, {}, spans, elements_);
}

void Learner::timed_step(int worker, Step step, double lr, double pull, Route route,
                         std::span<double> seconds) {
  step.update = setup_.optimizer.at(lr, pull);
  const BoundProgram& bound = bound_for(worker, route, setup_.batch.rows);
  bound.execution.run_timed(step, seconds.first(seconds.size() - 1));
  if (!updates_afterwards()) return;
  const auto start = std::chrono::steady_clock::now();
  Queue& queue = workspaces_[static_cast<size_t>(worker)]->queue();
  update(queue, step.update, route);
  queue.finish();
  seconds.back() += seconds_since(start);
}

}  // namespace crossbow
