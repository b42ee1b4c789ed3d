// Reading JSON that anybody may have written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace crossbow {

/// Whether brackets are, in text that may be no JSON. (A parser that asks at each of them takes
/// time that grows with the square of their number.)
bool is_nested_beyond(int deepest, std::string_view text);

/// Throws Error, which says what is wrong with "it", unless `text` is JSON of few levels, as all
/// of ours is.
nlohmann::json parse_json(std::string_view text);

}  // namespace crossbow
