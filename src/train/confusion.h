// What a classifier takes for what.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace crossbow {

/// Counts of samples by their class and by the class that was predicted. A plain value.
class Confusion {
 public:
  explicit Confusion(int64_t classes) : samples_(static_cast<size_t>(classes)) {}

  void add(int64_t actual, int64_t predicted) {
    ++counts_[{actual, predicted}];
    ++samples_[static_cast<size_t>(actual)];
  }

  int64_t classes() const { return static_cast<int64_t>(samples_.size()); }
  int64_t count(int64_t actual, int64_t predicted) const;
  /// The largest of all counts.
  int64_t most() const;
  int64_t samples(int64_t actual) const { return samples_[static_cast<size_t>(actual)]; }
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
  std::map<std::pair<int64_t, int64_t>, int64_t> counts_;  // of pairs that occur
  std::vector<int64_t> samples_;                           // by class
};

/// The class with the largest logit; of equals the first, as the accuracy op counts.
int64_t predicted_class(std::span<const double> logits);

}  // namespace crossbow
