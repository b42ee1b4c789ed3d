// Floats that several threads read and write at the same time, each float on its own.
//
// In C++ a plain access to such a float is undefined, and compilers do not vectorise relaxed
// atomics: an update of 2 M floats by std::atomic_ref takes four times as long as a plain one. On
// x86-64 inline assembly reads and writes whole vectors, which the compiler can neither split,
// repeat nor leave out. The processor reads and writes an aligned float as a whole, so each lane
// holds what some thread wrote; lanes may be of different times. Elsewhere, and under
// ThreadSanitizer, which does not look into assembly, each lane is a relaxed atomic.
//
// Nothing else may touch such floats while threads share them: a program, and so oneDNN, reads
// weights of its own (device/hogwild_sgd.h).
#pragma once

#include "kernels/cpu/simd/vec.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CROSSBOW_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CROSSBOW_THREAD_SANITIZER
#endif

namespace crossbow::simd::CROSSBOW_ISA {

inline float load_shared_one(const float* p) {
  float value;
  __atomic_load(p, &value, __ATOMIC_RELAXED);
  return value;
}
inline void store_shared_one(float* p, float value) {
  __atomic_store(p, &value, __ATOMIC_RELAXED);
}

/// The cache line will soon be written: other cores give it up, which takes one message instead of
/// one to read it and one to write it.
inline void expect_to_write(const float* p) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*p));
#else
  __builtin_prefetch(p, /*write=*/1);
#endif
}

#if defined(__x86_64__) && !defined(CROSSBOW_THREAD_SANITIZER)

struct SharedLanes {
  float lane[kLanes];
};

inline F32 load_shared(const float* p) {
  F32 value;
#if defined(__AVX512F__)
  asm volatile("vmovups %1, %0" : "=v"(value) : "m"(*reinterpret_cast<const SharedLanes*>(p)));
#elif defined(__AVX2__)
  asm volatile("vmovups %1, %0" : "=x"(value) : "m"(*reinterpret_cast<const SharedLanes*>(p)));
#else
  asm volatile("movups %1, %0" : "=x"(value) : "m"(*reinterpret_cast<const SharedLanes*>(p)));
#endif
  return value;
}
inline void store_shared(float* p, F32 value) {
#if defined(__AVX512F__)
  asm volatile("vmovups %1, %0" : "=m"(*reinterpret_cast<SharedLanes*>(p)) : "v"(value));
#elif defined(__AVX2__)
  asm volatile("vmovups %1, %0" : "=m"(*reinterpret_cast<SharedLanes*>(p)) : "x"(value));
#else
  asm volatile("movups %1, %0" : "=m"(*reinterpret_cast<SharedLanes*>(p)) : "x"(value));
#endif
}

#else

inline F32 load_shared(const float* p) {
  float lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = load_shared_one(p + l);
  return load(lanes);
}
inline void store_shared(float* p, F32 value) {
  float lanes[kLanes];
  store(lanes, value);
  for (int l = 0; l < kLanes; ++l) store_shared_one(p + l, lanes[l]);
}

#endif

}  // namespace crossbow::simd::CROSSBOW_ISA
