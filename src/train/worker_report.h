// What unlike workers have done in a run, for people and scripts to read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "learner/engine_place.h"
#include "train/workers_config.h"

namespace crossbow {

/// Of the run so far. A plain value.
struct WorkerReport {
  std::string kind, device;
  int64_t updates = 0, rows = 0;
  int64_t batch = 0;                     // of its next step
  int64_t batch_min = 0, batch_max = 0;  // of its steps; 0 if it had none
  int64_t repeated_rows = 0;             // trained on although they may have been before
  double busy_fraction = 0;              // of its nodes' time
  int failed_nodes = 0, nodes = 0;

  bool failed() const { return failed_nodes == nodes; }
};

/// None if the nodes are alike. `batch`: rows of the run's.
std::vector<WorkerReport> worker_reports(const std::vector<WorkerConfig>& workers,
                                         const EnginePlace& place, int64_t batch,
                                         const std::string& device);

nlohmann::json to_json(const std::vector<WorkerReport>& workers);

}  // namespace crossbow
