// Sharing a kernel's work among the OpenMP team of the thread that runs it. The division depends
// on the sizes and the number of threads alone, so results do not depend on timing.
#pragma once

#include <algorithm>
#include <cstdint>

namespace crossbow {

/// Runs f(0) … f(n − 1), in contiguous shares.
template <typename F>
void parallel_for(int threads, int64_t n, const F& f) {
  if (threads == 1 || n == 1) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < n; ++i) f(i);
}

/// How many threads to wake for that many elements: starting a team costs as much as computing some
/// thousand of them.
inline int useful_threads(int threads, int64_t elements) {
  constexpr int64_t kShare = 8192;
  return static_cast<int>(std::clamp<int64_t>(elements / kShare, 1, threads));
}

/// Runs f(begin, end) over [0, n) cut into one range for each thread, at multiples of 64.
template <typename F>
void parallel_ranges(int threads, int64_t n, const F& f) {
  const int64_t parts = useful_threads(threads, n);
  const auto cut = [&](int64_t i) { return i == parts ? n : n * i / parts / 64 * 64; };
  parallel_for(static_cast<int>(parts), parts, [&](int64_t i) { f(cut(i), cut(i + 1)); });
}

}  // namespace crossbow
