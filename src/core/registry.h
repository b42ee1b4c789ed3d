// Things that are looked up by name, put there by static objects in the files that define them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/exceptions.h"

namespace crossbow {

/// Entries in the order of their names, of which `Less` is the order. Addresses stay valid. Filled
/// before main, by one thread; constant and so thread-safe afterwards.
template <typename T, typename Less = std::less<>>
class Registry {
 public:
  /// `kind`: what an entry is, for messages: "op".
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  /// Throws Error, which names the entry, if there is one of that name: of two files that define
  /// one thing, chance would otherwise choose.
  const T& add(std::string_view name, T entry) {
    const auto [it, added] = entries_.try_emplace(std::string(name), std::move(entry));
    if (!added) throw Error("the " + kind_ + " '" + it->first + "' is registered twice");
    return it->second;
  }
  /// Null if there is none.
  const T* find(std::string_view name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second;
  }
  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const auto& [name, entry] : entries_) names.emplace_back(name);
    return names;
  }
  /// Pairs of name and entry.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  const std::string kind_;
  std::map<std::string, T, Less> entries_;
};

}  // namespace crossbow
