// Errors. Crossbow reports failure with exceptions whose text is one sentence that names the thing
// and the remedy, and options by their names in backticks. `crossbow` prints it with its flags and
// exits 1 (Error) or 2 (UsageError).
#pragma once

#include <stdexcept>

namespace crossbow {

/// Something went wrong while doing what was asked: bad data, a full disk, shapes that do not fit.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What was asked for makes no sense: an unknown name, an impossible combination of options.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace crossbow
