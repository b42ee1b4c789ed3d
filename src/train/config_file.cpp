// Configuration files: TOML to options and back.
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/nearest.h"
#include "core/planned.h"
#include "train/config.h"

namespace crossbow {
namespace {

constexpr size_t kLargestFile = 1 << 20;

std::string value_text(const toml::node& node, const OptionEntry& entry) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* i = node.as_integer()) return fmt::format("{}", i->get());
  if (const auto* f = node.as_floating_point()) return fmt::format("{}", f->get());
  if (const auto* b = node.as_boolean()) return b->get() ? "true" : "false";
  const toml::array* array = node.as_array();
  if (!array) fail_usage("{} is neither a number, a string, true, false nor a list", entry.name);
  const bool repeats = entry.between != 0;
  std::string joined;
  for (const toml::node& element : *array) {
    if (!(repeats ? element.is_string() : element.is_number())) {
      fail_usage("{}: a list may hold {} only", entry.name, repeats ? "strings" : "numbers");
    }
    if (!joined.empty()) joined += repeats ? entry.between : ',';
    joined += value_text(element, entry);
  }
  return joined;
}

/// JSON's escapes are all TOML's too.
std::string toml_string(const std::string& text) {
  return nlohmann::json(text).dump();
}

bool is_string(const OptionEntry& entry) {
  return std::holds_alternative<std::string TrainOptions::*>(entry.member) ||
         std::holds_alternative<std::optional<std::string> TrainOptions::*>(entry.member);
}

bool is_list(const OptionEntry& entry) {
  return std::holds_alternative<std::optional<std::vector<double>> TrainOptions::*>(entry.member);
}

/// The parser recurses into every part of a dotted key, which lies within a line.
void expect_short_keys(std::string_view toml, std::string_view source) {
  constexpr int64_t kMostDots = 1000;
  for (int line = 1; !toml.empty(); ++line) {
    const std::string_view text = toml.substr(0, toml.find('\n'));
    if (std::count(text.begin(), text.end(), '.') > kMostDots) {
      fail_usage("{}:{}: the line has more than {} dots", source, line, kMostDots);
    }
    toml.remove_prefix(std::min(toml.size(), text.size() + 1));
  }
}

}  // namespace

void apply_config(TrainOptions& options, std::string_view toml, std::string_view source) {
  expect_short_keys(toml, source);
  toml::table table;
  try {
    table = toml::parse(toml);
  } catch (const toml::parse_error& e) {
    fail_usage("{}:{}: {}", source, e.source().begin.line, e.description());
  }
  std::vector<std::string_view> names;
  for (const OptionEntry& entry : option_table()) names.push_back(entry.name);
  for (const auto& [key, node] : table) {
    const OptionEntry* entry = find_option(key.str());
    try {
      if (!entry) fail_unknown_option(key.str(), names);
      set_option(options, *entry, value_text(node, *entry));
    } catch (const UsageError& e) {
      fail_usage("{}:{}: {}", source, node.source().begin.line, e.what());
    }
  }
}

void apply_config_file(TrainOptions& options, const std::string& path) {
  apply_config(options, read_text_file(path, kLargestFile), path);
}

std::string to_config(const TrainOptions& options) {
  std::string text;
  for (const OptionEntry& entry : option_table()) {
    if (!option_is_set(options, entry)) continue;
    std::string value = option_text(options, entry);
    if (is_string(entry)) value = toml_string(value);
    if (is_list(entry)) value = fmt::format("[{}]", value);
    text += fmt::format("{} = {}\n", entry.name, value);
  }
  return text;
}

void fail_unknown_option(std::string_view name, std::span<const std::string_view> known) {
  refuse_planned(name, name.starts_with("--") ? name.substr(2) : name);
  fail_usage("{}: there is no such option{}", name, did_you_mean(name, known));
}

}  // namespace crossbow
