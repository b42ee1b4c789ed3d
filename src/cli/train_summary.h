// What a run came to, for people and for scripts.
#pragma once

#include <cstdio>

#include "cli/results.h"
#include "train/train.h"

namespace crossbow::cli {

void print_summary(std::FILE* out, const TrainResult& r);
Json to_json(const TrainResult& r);

}  // namespace crossbow::cli
