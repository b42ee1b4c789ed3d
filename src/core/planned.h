// What users look for that is planned.
#pragma once

#include <string_view>

namespace crossbow {

/// Throws UsageError, beginning with `said`, if `name` is a command, an option or a value of one
/// that does not exist yet.
void refuse_planned(std::string_view said, std::string_view name);

}  // namespace crossbow
