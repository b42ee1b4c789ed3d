// Texts that tests look into.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace crossbow::testing {

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The lines of a run's metrics that are of steps.
inline std::string step_lines(const std::filesystem::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::string all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("{\"step\"")) all += line + '\n';
  }
  return all;
}

inline void expect_says(const std::string& text, const std::string& part) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
}

}  // namespace crossbow::testing
