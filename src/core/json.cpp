#include "core/json.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace crossbow {

using nlohmann::json;

bool is_nested_beyond(int deepest, std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
    } else if (c == '{' || c == '[') {
      if (++depth > deepest) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

json parse_json(std::string_view text) {
  constexpr int kDeepest = 16;
  if (is_nested_beyond(kDeepest, text)) fail("it is nested more than {} levels deep", kDeepest);
  json value = json::parse(text.begin(), text.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) fail("it is not JSON");
  return value;
}

}  // namespace crossbow
