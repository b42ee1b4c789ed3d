#include "passes/freeze.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/nearest.h"
#include "graph/source.h"
#include "ops/batch_norm.h"
#include "passes/rewrite.h"

namespace crossbow {
namespace {

/// What the parameters' names begin with, up to the first dot.
std::vector<std::string_view> outermost_layers(const Graph& graph) {
  std::vector<std::string_view> layers;
  for (const int32_t id : graph.find("parameter")) {
    const std::string_view name = graph.nodes()[id].name;
    const std::string_view layer = name.substr(0, name.find('.'));
    if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  }
  return layers;
}

[[noreturn]] void fail_unmatched(const Graph& graph, const std::string& pattern) {
  constexpr size_t kMostNamed = 12;
  const std::vector<std::string_view> layers = outermost_layers(graph);
  const std::span<const std::string_view> named(layers.data(), std::min(layers.size(), kMostNamed));
  fail_usage("`freeze` {}: it is found in none of the parameters' names, which begin with {}{}{}",
             pattern, fmt::join(named, ", "), named.size() < layers.size() ? ", …" : "",
             did_you_mean(pattern, layers));
}

/// What `|` divides, but for what is in brackets or behind a backslash.
std::vector<std::string> alternatives(const std::string& pattern) {
  std::vector<std::string> all(1);
  int depth = 0;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '|' && depth == 0 && !in_class) {
      all.emplace_back();
      continue;
    }
    all.back() += c;
    if (c == '\\' && i + 1 < pattern.size()) all.back() += pattern[++i];
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    if (!in_class) depth += (c == '(') - (c == ')');
  }
  return all;
}

bool is_expression(const std::string& text) {
  try {
    name_pattern(text);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

/// By node.
std::vector<bool> frozen_parameters(const Graph& graph, const std::string& pattern) {
  const std::regex expression = name_pattern(pattern);
  const std::vector<int32_t> parameters = graph.find("parameter");
  std::vector<bool> frozen(graph.nodes().size());
  for (const int32_t id : parameters) {
    frozen[id] = std::regex_search(graph.nodes()[id].name, expression);
  }
  const auto count = std::ranges::count(frozen, true);
  if (count == 0) fail_unmatched(graph, pattern);
  if (count == std::ssize(parameters)) {
    fail_usage("`freeze` {}: it is found in the names of all {} parameters, so nothing would learn",
               pattern, count);
  }
  return frozen;
}

enum Input { kScale = 1, kShift, kRunningMean, kRunningVariance };

}  // namespace

std::regex name_pattern(const std::string& text) {
  constexpr size_t kLongest = 1000;  // the library's parser calls itself for each bracket
  if (text.size() > kLongest) {
    fail_usage("`freeze`: its pattern has {} characters, and may have {}", text.size(), kLongest);
  }
  try {
    return std::regex(text);
  } catch (const std::regex_error&) {
    fail_usage("`freeze` {}: it is no regular expression; a plain one is the name of a layer",
               text);
  }
}

void expect_each_found(const Graph& forward, const std::string& pattern) {
  const std::vector<std::string> all = alternatives(pattern);
  if (!std::ranges::all_of(all, is_expression)) return;  // `|` was not what divides them
  for (const std::string& alternative : all) frozen_parameters(forward, alternative);
}

Graph freeze(const Graph& forward, const std::string& pattern) {
  std::vector<bool> frozen = frozen_parameters(forward, pattern);
  std::vector<bool> by_statistics(frozen.size());
  for (const int32_t id : forward.find("batch_norm")) {
    const std::vector<Value>& inputs = forward.nodes()[id].inputs;
    by_statistics[id] = frozen[inputs[kScale].node] && frozen[inputs[kShift].node];
    if (!by_statistics[id]) continue;
    for (const Input state : {kRunningMean, kRunningVariance}) frozen[inputs[state].node] = true;
  }
  return rewrite(forward, [&](Rewriter& r, int32_t id) {
    const Node& node = forward.nodes()[id];
    if (frozen[id]) return r.copy(id, frozen_attributes(node));
    r.copy(id, by_statistics[id] ? by_running_statistics(node) : nullptr);
  });
}

}  // namespace crossbow
