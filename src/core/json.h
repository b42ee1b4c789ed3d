// Reading JSON that anybody may have written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace crossbow {

/// Throws Error, which says what is wrong with "it", unless `text` is JSON of few levels, as all
/// of ours is.
nlohmann::json parse_json(std::string_view text);

}  // namespace crossbow
