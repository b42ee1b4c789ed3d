#include <chrono>

#include "core/error.h"
#include "plan/program.h"

namespace crossbow {

Execution::Execution(std::shared_ptr<const Program> program, const ReplicaView& replica,
                     const Buffer& arena)
    : program_(std::move(program)), first_update_(program_->first_update_) {
  if (arena.size() < program_->arena_bytes()) {
    fail("an arena of {} bytes is too small for a program that needs {}", arena.size(),
         program_->arena_bytes());
  }
  const auto base = [&](Program::Place place) -> std::byte* {
    switch (place) {
      case Program::Place::absent:
        break;
      case Program::Place::arena:
        return arena.data();
      case Program::Place::parameter:
        return replica.parameters;
      case Program::Place::next_parameter:
        return replica.next_parameters;
      case Program::Place::gradient:
        return replica.gradients;
      case Program::Place::momentum:
        return replica.momentum;
      case Program::Place::state:
        return replica.states;
      case Program::Place::central:
        return const_cast<std::byte*>(replica.central);  // only read
    }
    return nullptr;
  };
  const auto address = [&](Program::Location location) -> void* {
    std::byte* const from = base(location.place);
    return from ? from + location.offset : nullptr;
  };
  for (const Program::Kernel& kernel : program_->kernels_) {
    Operands operands;
    for (Program::Location l : kernel.inputs) operands.inputs.push_back(address(l));
    for (Program::Location l : kernel.outputs) operands.outputs.push_back(address(l));
    operands.scratch = address(kernel.scratch);
    calls_.push_back(kernel.prepared.bind(std::move(operands)));
  }
  for (const auto& [name, result] : program_->results_) results_[name] = address(result.location);
}

void Execution::run_timed(const Step& step, std::span<double> seconds) const {
  using Clock = std::chrono::steady_clock;
  auto before = Clock::now();
  for (size_t i = 0; i < calls_.size(); ++i) {
    calls_[i](step);
    const auto after = Clock::now();
    seconds[i] += std::chrono::duration<double>(after - before).count();
    before = after;
  }
}

std::vector<double> Execution::values(const std::string& name) const {
  const auto it = program_->results_.find(name);
  if (it == program_->results_.end()) fail("the program has no result '{}'", name);
  const Layout& layout = it->second.layout;
  std::vector<double> values(layout.shape.elements());
  read_tensor(layout, results_.at(name), values);
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

double Program::flops() const {
  double total = 0;
  for (const Op& op : ops_) total += op.flops;
  return total;
}

std::vector<const PreparedKernel*> Program::prepared_kernels() const {
  std::vector<const PreparedKernel*> prepared;
  for (const Kernel& kernel : kernels_) prepared.push_back(&kernel.prepared);
  return prepared;
}

}  // namespace crossbow
