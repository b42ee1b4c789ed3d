#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "plan/program.h"
#include "plan/row_major.h"

namespace crossbow {
namespace {

constexpr int64_t kSlotAlignment = 16;  // elements: 64 bytes of f32

void append(std::vector<ParameterLayout::Slot>& slots, int64_t& elements, std::string name,
            const Layout& layout, const Initialiser& initialiser, size_t index = 0) {
  slots.push_back({std::move(name), layout, elements, initialiser, static_cast<uint32_t>(index)});
  elements += (layout.elements() + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

int64_t values_of(const std::vector<ParameterLayout::Slot>& slots) {
  int64_t n = 0;
  for (const auto& slot : slots) n += slot.layout.shape.elements();
  return n;
}

int64_t fan_of(const Shape& shape, Initialiser::Fan fan) {
  const int64_t window = shape.elements_from(2);
  const int64_t in = (shape.rank() > 1 ? shape[1] : 1) * window;
  const int64_t out = shape[0] * window;
  switch (fan) {
    case Initialiser::Fan::in:
      return in;
    case Initialiser::Fan::out:
      return out;
    case Initialiser::Fan::average:
      return (in + out) / 2;
  }
  return in;
}

float draw(Rng& rng, const Initialiser& init, double fan) {
  switch (init.kind) {
    case Initialiser::Kind::constant:
      return init.a;
    case Initialiser::Kind::uniform:
      return rng.uniform(init.a, init.b);
    case Initialiser::Kind::gaussian:
      return init.a + init.b * rng.gaussian();
    case Initialiser::Kind::truncated_gaussian: {
      float g = rng.gaussian();
      while (std::abs(g) > 2) g = rng.gaussian();
      return init.a + init.b * g;
    }
    case Initialiser::Kind::xavier: {
      const float limit = static_cast<float>(std::sqrt(3 / fan));
      return rng.uniform(-limit, limit);
    }
    case Initialiser::Kind::he:
      return static_cast<float>(std::sqrt(2 / fan)) * rng.gaussian();
  }
  return 0;
}

}  // namespace

void ParameterLayout::add_parameter(std::string name, const Layout& layout,
                                    const Initialiser& initialiser, bool frozen) {
  const size_t index = parameters.size() + frozen_parameters.size();
  append(frozen ? frozen_parameters : parameters, frozen ? frozen_elements : parameter_elements,
         std::move(name), layout, initialiser, index);
}

void ParameterLayout::add_state(std::string name, const Layout& layout, float value, bool frozen) {
  append(frozen ? frozen_states : states, frozen ? frozen_elements : state_elements,
         std::move(name), layout, Initialiser::constant(value));
}

const ParameterLayout::Slot* ParameterLayout::find(std::string_view name) const {
  for (const auto* slots : all()) {
    for (const Slot& slot : *slots) {
      if (slot.name == name) return &slot;
    }
  }
  return nullptr;
}

const ParameterLayout::Slot& ParameterLayout::last_parameter() const {
  const bool frozen =
      parameters.empty() ||
      (!frozen_parameters.empty() && frozen_parameters.back().index > parameters.back().index);
  return frozen ? frozen_parameters.back() : parameters.back();
}

int64_t ParameterLayout::trained() const {
  return values_of(parameters);
}

int64_t ParameterLayout::frozen() const {
  return values_of(frozen_parameters);
}

std::vector<ParameterLayout::Piece> ParameterLayout::pieces(int64_t largest) const {
  std::vector<Piece> all;
  for (int64_t first = 0; first < parameter_elements; first += all.back().elements) {
    all.push_back({first, std::min(largest, parameter_elements - first)});
  }
  return all;
}

std::vector<ParameterLayout::Piece> ParameterLayout::pieces(const Optimizer& optimizer,
                                                            int64_t largest) const {
  const bool by_parameter = optimizer.rule->by_parameter;
  if (!by_parameter && optimizer.weight_decay.of_vectors) return pieces(largest);
  std::vector<Piece> all;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Slot& slot = parameters[i];
    const bool decay = slot.decays(optimizer.weight_decay), last = i + 1 == parameters.size();
    const int64_t end = last ? parameter_elements : parameters[i + 1].offset;
    int64_t first = slot.offset;
    if (!by_parameter && !all.empty() && all.back().decay == decay) {
      Piece& before = all.back();
      first = before.first + std::min(largest, end - before.first);
      before.elements = first - before.first;
    }
    const int64_t most = by_parameter ? end - first : largest;
    for (; first < end; first += all.back().elements) {
      all.push_back({first, std::min(most, end - first), decay});
    }
  }
  return all;
}

int64_t ParameterLayout::largest(const std::vector<Piece>& pieces) {
  int64_t elements = 0;
  for (const Piece& piece : pieces) elements = std::max(elements, piece.elements);
  return elements;
}

Replica::Replica(const ParameterLayout& layout, bool with_gradients, size_t slot_count)
    : device(&find_device("cpu")),
      parameters(layout.parameter_elements * size_of(layout.dtype)),
      gradients(with_gradients ? layout.parameter_elements * size_of(layout.dtype) : 0),
      states(layout.state_elements * size_of(layout.dtype)),
      frozen(layout.frozen_elements * size_of(layout.dtype)) {
  for (size_t i = 0; i < slot_count; ++i) slots.emplace_back(parameters.size());
}

Replica::Replica(const ParameterLayout& layout, Device& on, size_t slot_count)
    : device(&on),
      parameters(on.allocate_zeroed(layout.parameter_elements * size_of(layout.dtype))),
      states(on.allocate_zeroed(layout.state_elements * size_of(layout.dtype))),
      frozen(on.allocate_zeroed(layout.frozen_elements * size_of(layout.dtype))) {
  for (size_t i = 0; i < slot_count; ++i) slots.push_back(on.allocate_zeroed(parameters.size()));
}

void initialise(const ParameterLayout& layout, Replica& replica, uint64_t seed) {
  std::vector<float> values;
  const auto fill = [&](const ParameterLayout::Slot& slot, std::byte* base) {
    Rng rng(seed, Purpose::init, slot.index);
    const double fan = static_cast<double>(fan_of(slot.layout.shape, slot.initialiser.fan));
    values.resize(slot.layout.shape.elements());
    for (float& v : values) v = draw(rng, slot.initialiser, fan);
    write_tensor(slot.layout, base + slot.offset * size_of(layout.dtype),
                 std::span<const float>(values));
  };
  for (const auto& slot : layout.parameters) fill(slot, replica.parameters.data());
  for (const auto& slot : layout.states) fill(slot, replica.states.data());
  for (const auto* slots : {&layout.frozen_parameters, &layout.frozen_states}) {
    for (const auto& slot : *slots) fill(slot, replica.frozen.data());
  }
}

}  // namespace crossbow
