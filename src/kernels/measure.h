// Choosing between several implementations of one layer by trying them.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace crossbow {

/// Seconds of one run by a queue of the device, the least of several, on made-up data in fresh
/// memory.
double measure(const PreparedKernel& kernel, Device& device);

/// The candidate that the context's chooser prefers, the first one without a chooser. `key`
/// identifies the layer: op, shapes, element type, threads. Where others keep the device busy, so
/// many copies are timed side by side. Candidates that want their inputs unlike each other are
/// timed with the conversions of what is offered, and with those of weights to another type.
PreparedKernel choose(const PrepareContext& context, const std::string& key,
                      std::vector<PreparedKernel> candidates);

}  // namespace crossbow
