// What a failing call says.
#pragma once

#include <string>

#include "core/error.h"

namespace crossbow::testing {

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace crossbow::testing
