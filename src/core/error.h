// How our own code throws the errors of core/exceptions.h.
#pragma once

#include <fmt/core.h>

#include "core/exceptions.h"  // IWYU pragma: export

namespace crossbow {

[[noreturn]] void throw_error(fmt::string_view format, fmt::format_args args);
[[noreturn]] void throw_usage_error(fmt::string_view format, fmt::format_args args);

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw_error(format, fmt::make_format_args(args...));
}

template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw_usage_error(format, fmt::make_format_args(args...));
}

}  // namespace crossbow
