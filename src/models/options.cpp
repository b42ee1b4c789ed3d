#include "models/options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/number.h"

namespace crossbow {

const std::string* ModelOptions::find(const std::string& name) {
  known_.push_back(name);
  const auto it = options_.find(name);
  return it == options_.end() ? nullptr : &it->second;
}

template <typename T>
T ModelOptions::number_in(const char* what, const std::string& name, T fallback, T low, T high) {
  const std::string* text = find(name);
  if (!text) return fallback;
  const auto value = number_of<T>(*text);
  if (!value || !(*value >= low && *value <= high)) {
    fail_usage("the option '{}' of the model '{}' must be a {} from {} to {}, not '{}'", name,
               model_, what, low, high, *text);
  }
  return *value;
}

int64_t ModelOptions::integer(const std::string& name, int64_t fallback, int64_t low,
                              int64_t high) {
  return number_in("whole number", name, fallback, low, high);
}

double ModelOptions::number(const std::string& name, double fallback, double low, double high) {
  return number_in("number", name, fallback, low, high);
}

std::string ModelOptions::choice(const std::string& name, std::string_view fallback,
                                 std::initializer_list<std::string_view> choices) {
  const std::string* text = find(name);
  if (!text) return std::string(fallback);
  if (std::find(choices.begin(), choices.end(), *text) == choices.end()) {
    fail_usage("the option '{}' of the model '{}' must be one of {}, not '{}'", name, model_,
               fmt::join(choices, ", "), *text);
  }
  return *text;
}

void ModelOptions::finish() const {
  for (const auto& [name, value] : options_) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    if (known_.empty()) fail_usage("the model '{}' takes no options, not '{}'", model_, name);
    fail_usage("the model '{}' has no option '{}'; it has: {}", model_, name,
               fmt::join(known_, ", "));
  }
}

}  // namespace crossbow
