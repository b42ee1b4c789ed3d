// Counts what code takes by `new`. Sanitizers bring an operator new of their own: under them there
// is nothing here, and CROSSBOW_SANITIZED is defined.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CROSSBOW_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CROSSBOW_SANITIZED 1
#endif
#endif

#ifndef CROSSBOW_SANITIZED
namespace crossbow::testing {

/// Of all threads. C libraries, which call malloc, do not count.
struct Allocations {
  int all = 0;
  int ours = 0;  // whose caller lies in this executable, rather than in oneDNN, say
};

void begin_to_count_allocations();
Allocations end_to_count_allocations();

template <typename Body>
Allocations allocations_of(Body&& body) {
  begin_to_count_allocations();
  body();
  return end_to_count_allocations();
}

}  // namespace crossbow::testing
#endif
