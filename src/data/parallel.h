// A loop spread over a few short-lived threads, for work done once while a set is opened.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace crossbow::data {

struct OpenOptions;

/// Calls `body(i)` for i in [0, n), each once, on the calling thread and `options.threads` − 1
/// others; the calling thread reports progress as it goes. If bodies throw, the exception of the
/// smallest i among those that ran is rethrown when all threads have stopped.
void parallel_for(int64_t n, const OpenOptions& options, std::string_view what,
                  const std::function<void(int64_t)>& body);

}  // namespace crossbow::data
