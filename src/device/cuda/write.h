#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace crossbow::cuda {

/// Gives the stream a copy of the host's bytes, which may change as soon as the call returns: they
/// travel as a kernel's arguments, because a copy from memory that is not pinned first waits for
/// the stream. Multiples of four bytes.
void write(void* to, const void* from, size_t bytes, cudaStream_t stream);

/// A copy of few bytes, a multiple of four, by a kernel: for the host's pinned memory, which it
/// reaches sooner than a copy engine would.
void copy_words(void* to, const void* from, size_t bytes, cudaStream_t stream);

}  // namespace crossbow::cuda
