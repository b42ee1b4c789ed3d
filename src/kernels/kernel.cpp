#include "kernels/kernel.h"

#include "core/error.h"

namespace crossbow {

KernelRegistry& KernelRegistry::of(std::string_view device) {
  static std::map<std::string, KernelRegistry, std::less<>> registries;
  return registries.try_emplace(std::string(device)).first->second;
}

void KernelRegistry::add(std::string_view op, PrepareFn prepare) {
  kernels_.insert_or_assign(std::string(op), prepare);
}

PrepareFn KernelRegistry::find(std::string_view op) const {
  const auto it = kernels_.find(op);
  return it == kernels_.end() ? nullptr : it->second;
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
