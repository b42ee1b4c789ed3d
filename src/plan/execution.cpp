#include <chrono>

#include "core/error.h"
#include "plan/program.h"
#include "plan/row_major.h"

namespace crossbow {

Execution::Execution(std::shared_ptr<const Program> program, const ReplicaView& replica,
                     const Workspace& workspace, std::span<const int64_t> cuts)
    : program_(std::move(program)), workspace_(workspace), gradients_(cuts.size() + 1) {
  const Buffer& arena = workspace.arena();
  if (!workspace.holds(program_->arena_bytes(), program_->input_bytes())) {
    fail(
        "a workspace with an arena of {} bytes is too small for a program that needs {}, or for "
        "its batches",
        arena.size(), program_->arena_bytes());
  }
  if (program_->in_place_ && replica.next_parameters != replica.parameters) {
    fail("the program updates weights in place, and cannot leave them elsewhere");
  }
  const auto base = [&](Program::Location location) -> std::byte* {
    switch (location.memory) {
      case Program::Memory::absent:
        break;
      case Program::Memory::arena:
        return arena.data();
      case Program::Memory::parameter:
        return replica.parameters;
      case Program::Memory::next_parameter:
        return replica.next_parameters;
      case Program::Memory::gradient:
        return replica.gradients;
      case Program::Memory::slot:
        return static_cast<std::byte*>(replica.slots[location.slot]);
      case Program::Memory::state:
        return replica.states;
      case Program::Memory::frozen:
        return replica.frozen;
      case Program::Memory::central:
        return const_cast<std::byte*>(replica.central);  // only read
    }
    return nullptr;
  };
  const auto address = [&](Program::Location location) -> void* {
    std::byte* const from = base(location);
    return from ? from + location.offset : nullptr;
  };
  size_t stretch = 0;
  for (size_t k = 0; k < program_->kernels_.size(); ++k) {
    const Program::Kernel& kernel = program_->kernels_[k];
    while (stretch < cuts.size() && program_->kernels_for_gradient(cuts[stretch]) <= k) ++stretch;
    Operands operands;
    for (Program::Location l : kernel.inputs) operands.inputs.push_back(address(l));
    for (Program::Location l : kernel.outputs) operands.outputs.push_back(address(l));
    operands.scratch = address(kernel.scratch);
    Queue& queue = workspace.queue();
    Call call =
        queue.bind(kernel.update ? kernel.update : kernel.prepared.bind, std::move(operands));
    if (kernel.lag) {
      call = [&queue, call = std::move(call), lag = *kernel.lag](const Step& s) {
        queue.aside([&] { call(s); });
        queue.join(lag);
      };
    }
    const bool updates = k >= program_->first_update_;
    (updates ? updates_ : gradients_[stretch]).calls.push_back(std::move(call));
  }
  for (const auto& [name, result] : program_->results_) results_[name] = address(result.location);
}

void Execution::run_timed(const Step& step, std::span<double> seconds) const {
  using Clock = std::chrono::steady_clock;
  workspace_.set(step, program_->input_bytes());
  workspace_.queue().finish();
  auto before = Clock::now();
  size_t i = 0;
  const auto time = [&](const Stretch& stretch) {
    for (const Call& call : stretch.calls) {
      call(workspace_.step());
      workspace_.queue().finish();
      const auto after = Clock::now();
      seconds[i++] += std::chrono::duration<double>(after - before).count();
      before = after;
    }
  };
  for (const Stretch& stretch : gradients_) time(stretch);
  time(updates_);
}

std::vector<double> Execution::values(const std::string& name) const {
  const auto it = program_->results_.find(name);
  if (it == program_->results_.end()) fail("the program has no result '{}'", name);
  const Layout& layout = it->second.layout;
  const Buffer copy(layout.bytes());
  workspace_.queue().copy(copy.data(), results_.at(name), layout.bytes());
  workspace_.queue().finish();
  std::vector<double> values(layout.shape.elements());
  read_tensor(layout, copy.data(), values);
  return values;
}

double Execution::scalar(const std::string& name) const {
  return values(name).at(0);
}

const float* Execution::scalar_address(const std::string& name) const {
  const auto it = program_->results_.find(name);
  const bool scalar = it != program_->results_.end() && it->second.layout.dtype == DType::f32 &&
                      it->second.layout.elements() == 1;
  return scalar ? static_cast<const float*>(results_.at(name)) : nullptr;
}

size_t Program::kernels_for_gradient(int64_t from) const {
  const size_t first = static_cast<size_t>(from) * size_of(parameters_->dtype);
  size_t last = 0;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    for (const Location& l : kernels_[k].outputs) {
      if (l.memory == Memory::gradient && l.offset >= first) last = k + 1;
    }
  }
  return last;
}

double Program::flops() const {
  double total = 0;
  for (const KernelInfo& info : kernel_infos_) total += info.flops;
  return total;
}

std::vector<const PreparedKernel*> Program::prepared_kernels() const {
  std::vector<const PreparedKernel*> prepared;
  for (const Kernel& kernel : kernels_) prepared.push_back(&kernel.prepared);
  return prepared;
}

}  // namespace crossbow
