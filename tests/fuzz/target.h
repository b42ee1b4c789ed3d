// A fuzz target: what a parser does with any bytes at all. The same source serves libFuzzer (the
// preset `fuzz` builds a program for each target) and the test suite, which runs the targets over
// the corpus, the folder corpus/NAME. A new target is one file, NAME_fuzz.cpp, and a few seeds.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "core/error.h"

namespace crossbow::fuzz {

using Target = void (*)(std::span<const uint8_t> bytes);

/// The targets that are linked in, by name.
inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> map;
  return map;
}

/// To say in an Error what is wrong with the bytes is a good answer; all else that ends a target
/// early is a bug.
inline void run(Target target, std::span<const uint8_t> bytes) {
  try {
    target(bytes);
  } catch (const Error&) {
  }
}

}  // namespace crossbow::fuzz

#ifdef CROSSBOW_LIBFUZZER
#define FUZZ_TARGET(name, bytes)                                            \
  static void name##_target(std::span<const uint8_t> bytes);                \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    crossbow::fuzz::run(name##_target, {data, size});                       \
    return 0;                                                               \
  }                                                                         \
  static void name##_target(std::span<const uint8_t> bytes)
#else
#define FUZZ_TARGET(name, bytes)                                      \
  static void name##_target(std::span<const uint8_t> bytes);          \
  [[maybe_unused]] static const bool name##_is_known =                \
      crossbow::fuzz::targets().emplace(#name, name##_target).second; \
  static void name##_target(std::span<const uint8_t> bytes)
#endif
