// What a classifier takes for what, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/results.h"
#include "train/confusion.h"

namespace crossbow::cli {

/// Predictions on test samples by class.
struct ClassResult {
  Confusion confusion;
  std::vector<std::string> names;
  std::string samples;  // what they are called: "images"
};

/// The confusion matrix; where it is too wide for standard output, the least accurate classes and
/// the most frequent confusions.
void print_classes(const ClassResult& result);

/// A list with the name, images and accuracy of each class.
Json per_class_json(const ClassResult& result);
/// Rows of counts: by class, then by the class that was predicted. Null for so many classes that it
/// would be of no use.
Json confusion_json(const Confusion& confusion);

}  // namespace crossbow::cli
