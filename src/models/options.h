// Reading a model's options strictly: what is not understood is an error that names what would be.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace crossbow {

/// `ModelOptions o("mlp", spec.options); o.integer(…); o.choice(…); o.finish();` All throw
/// UsageError. Refers to its arguments.
class ModelOptions {
 public:
  ModelOptions(std::string_view model, const std::map<std::string, std::string>& options)
      : model_(model), options_(options) {}

  int64_t integer(const std::string& name, int64_t fallback, int64_t low, int64_t high);
  double number(const std::string& name, double fallback, double low, double high);
  std::string choice(const std::string& name, std::string_view fallback,
                     std::initializer_list<std::string_view> choices);
  /// Throws if there are options that were not asked for.
  void finish() const;

 private:
  const std::string* find(const std::string& name);
  template <typename T>
  T number_in(const char* what, const std::string& name, T fallback, T low, T high);

  std::string_view model_;
  const std::map<std::string, std::string>& options_;
  std::vector<std::string> known_;
};

}  // namespace crossbow
