#include "plan/named_tensors.h"

#include "core/error.h"
#include "core/nearest.h"
#include "device/host_window.h"
#include "plan/row_major.h"

namespace crossbow {
namespace {

struct Found {
  const Layout& layout;
  std::byte* data;
};

[[noreturn]] void fail_unknown(const ParameterLayout& layout, std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto* slots : layout.all()) {
    for (const auto& slot : *slots) names.push_back(slot.name);
  }
  fail_usage("the net has no tensor '{}' among its {}{}", name, names.size(),
             did_you_mean(name, names));
}

Found find(const ParameterLayout& layout, const Replica& replica, std::string_view name) {
  for (const auto& [slots, buffer] : {std::pair(&layout.parameters, &replica.parameters),
                                      std::pair(&layout.states, &replica.states),
                                      std::pair(&layout.frozen_parameters, &replica.frozen),
                                      std::pair(&layout.frozen_states, &replica.frozen)}) {
    for (const auto& slot : *slots) {
      if (slot.name != name) continue;
      const auto bytes = static_cast<size_t>(slot.offset) * size_of(layout.dtype);
      return {slot.layout, buffer->data() + bytes};
    }
  }
  fail_unknown(layout, name);
}

}  // namespace

std::vector<float> read_named(const ParameterLayout& layout, const Replica& replica,
                              std::string_view name) {
  const Found tensor = find(layout, replica, name);
  std::vector<float> values(static_cast<size_t>(tensor.layout.shape.elements()));
  const HostWindow window(*replica.device, tensor.data, tensor.layout.bytes());
  read_tensor(tensor.layout, window.data(), values);
  return values;
}

void write_named(const ParameterLayout& layout, const Replica& replica, std::string_view name,
                 std::span<const float> values) {
  const Found tensor = find(layout, replica, name);
  const Shape& shape = tensor.layout.shape;
  if (static_cast<int64_t>(values.size()) != shape.elements()) {
    fail_usage("{} has shape {}, which is {} values, but {} were given", name, shape.str(),
               shape.elements(), values.size());
  }
  const HostDraft draft(*replica.device, tensor.data, tensor.layout.bytes());
  write_tensor(tensor.layout, draft.data(), values);
  draft.commit();
}

}  // namespace crossbow
