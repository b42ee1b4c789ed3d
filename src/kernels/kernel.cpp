#include "kernels/kernel.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace crossbow {

UpdateSpans update_spans(const Operands& operands, size_t first) {
  const std::vector<void*>& in = operands.inputs;
  UpdateSpans spans{in[first], nullptr, {}, in[first + 1], operands.outputs[0]};
  std::copy(in.begin() + static_cast<std::ptrdiff_t>(first) + 2, in.end(), spans.slots.begin());
  return spans;
}

KernelRegistry& KernelRegistry::of(std::string_view device) {
  static std::map<std::string, KernelRegistry, std::less<>> registries;
  return registries.try_emplace(std::string(device), device).first->second;
}

KernelRegistry::KernelRegistry(std::string_view device)
    : kernels_(fmt::format("{} kernel", device)) {}

void KernelRegistry::set_reorder(ReorderFn reorder) {
  if (reorder_) fail("a reorder is registered twice for one device");
  reorder_ = reorder;
}

PrepareFn KernelRegistry::find(std::string_view op) const {
  const PrepareFn* const prepare = kernels_.find(op);
  return prepare ? *prepare : nullptr;
}

void KernelRegistry::set_casts(CastsFn casts) {
  if (casts_) fail("casts are registered twice for one device");
  casts_ = casts;
}

PreparedKernel KernelRegistry::reorder(const Layout& from, const Layout& to, int threads) const {
  if (!reorder_) fail("the device cannot convert {} to {}", from.str(), to.str());
  return reorder_(from, to, threads);
}

Layout PrepareContext::offered_or_plain(size_t i) const {
  if (offered[i]) return *offered[i];
  const TensorType type = input_type(i);
  return Layout::plain(type.shape, type.dtype == DType::f32 ? precision : type.dtype);
}

}  // namespace crossbow
