#include "support/allocations.h"

#ifndef CROSSBOW_SANITIZED
#include <atomic>
#include <cstdlib>
#include <new>

extern "C" char __executable_start, etext;  // of the linker

namespace {
std::atomic<bool> counting{false};
std::atomic<int> all{0}, ours{0};
}  // namespace

// Not inlined, lest the return address be that of a caller further up.
__attribute__((noinline)) void* operator new(size_t size) {
  if (counting) {
    const char* const caller = static_cast<const char*>(__builtin_return_address(0));
    ++all;
    if (caller >= &__executable_start && caller < &etext) ++ours;
  }
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace crossbow::testing {

void begin_to_count_allocations() {
  all = ours = 0;
  counting = true;
}

Allocations end_to_count_allocations() {
  counting = false;
  return {all, ours};
}

}  // namespace crossbow::testing
#endif
