// How our own code throws the errors of core/exceptions.h.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/exceptions.h"  // IWYU pragma: export

namespace crossbow {

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace crossbow
