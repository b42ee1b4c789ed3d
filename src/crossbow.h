// All that a program needs to declare a net and train it; examples/ shows how. What is included
// here, directly or not, is installed: cmake/public_headers.cmake.
#pragma once

#include "core/exceptions.h"          // IWYU pragma: export
#include "data/dataset.h"             // IWYU pragma: export
#include "data/memory.h"              // IWYU pragma: export
#include "graph/graph.h"              // IWYU pragma: export
#include "models/layers.h"            // IWYU pragma: export
#include "models/loss.h"              // IWYU pragma: export
#include "models/model.h"             // IWYU pragma: export
#include "ops/activation.h"           // IWYU pragma: export
#include "ops/adaptive_pool.h"        // IWYU pragma: export
#include "ops/dense.h"                // IWYU pragma: export
#include "ops/dropout.h"              // IWYU pragma: export
#include "ops/elementwise.h"          // IWYU pragma: export
#include "ops/gelu.h"                 // IWYU pragma: export
#include "ops/local_response_norm.h"  // IWYU pragma: export
#include "ops/pool.h"                 // IWYU pragma: export
#include "ops/scale_bias.h"           // IWYU pragma: export
#include "ops/shape_ops.h"            // IWYU pragma: export
#include "ops/softmax.h"              // IWYU pragma: export
#include "train/session.h"            // IWYU pragma: export
#include "train/train.h"              // IWYU pragma: export
