// What a classifier takes for what.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crossbow {

/// Counts of samples by their class and by the class that was predicted. A plain value.
class Confusion {
 public:
  explicit Confusion(int64_t classes)
      : classes_(classes), counts_(static_cast<size_t>(classes * classes)) {}

  void add(int64_t actual, int64_t predicted) { ++counts_[at(actual, predicted)]; }

  int64_t classes() const { return classes_; }
  int64_t count(int64_t actual, int64_t predicted) const { return counts_[at(actual, predicted)]; }
  int64_t samples(int64_t actual) const;
  /// Fraction of the class's samples that were predicted as such; NaN for a class without samples.
  double accuracy(int64_t actual) const;

  /// The classes that have samples, the least accurate first.
  std::vector<int64_t> worst_first() const;

  struct Mistake {
    int64_t actual, predicted, count;
  };
  /// The most frequent first; of as many, in the order of the classes.
  std::vector<Mistake> mistakes() const;

 private:
  size_t at(int64_t actual, int64_t predicted) const {
    return static_cast<size_t>(actual * classes_ + predicted);
  }

  int64_t classes_;
  std::vector<int64_t> counts_;
};

/// The class with the largest logit; of equals the first, as the accuracy op counts.
int64_t predicted_class(std::span<const double> logits);

}  // namespace crossbow
