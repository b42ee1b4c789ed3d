#include "core/json.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace crossbow {

using nlohmann::json;

json parse_json(std::string_view text) {
  static constexpr int kDeepest = 16;
  const auto look = [](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) fail("it is nested more than {} levels deep", kDeepest);
    return true;
  };
  json value = json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (value.is_discarded()) fail("it is not JSON");
  return value;
}

}  // namespace crossbow
