#include "train/worker_report.h"

namespace crossbow {

std::vector<WorkerReport> worker_reports(const std::vector<WorkerConfig>& workers,
                                         const EnginePlace& place, int64_t batch,
                                         const std::string& device) {
  std::vector<WorkerReport> reports;
  auto node = place.nodes.begin();
  for (size_t w = 0; w < workers.size(); ++w) {
    const WorkerState& state = place.workers[w];
    WorkerReport r;
    r.kind = workers[w].kind();
    r.device = device;
    r.nodes = workers[w].nodes();
    r.batch = state.size * batch;
    r.batch_min = state.least * batch;
    r.batch_max = state.most * batch;
    r.repeated_rows = state.repeated * batch;
    double busy = 0, all = 0;
    for (int n = 0; n < r.nodes; ++n, ++node) {
      r.updates += node->report.updates;
      r.rows += node->report.rows;
      r.failed_nodes += node->failed ? 1 : 0;
      busy += node->report.busy;
      all += node->report.busy + node->report.waiting;
    }
    if (all > 0) r.busy_fraction = busy / all;
    reports.push_back(r);
  }
  return reports;
}

nlohmann::json to_json(const std::vector<WorkerReport>& workers) {
  nlohmann::json list = nlohmann::json::array();
  for (size_t w = 0; w < workers.size(); ++w) {
    const WorkerReport& r = workers[w];
    list.push_back({{"worker", w},
                    {"kind", r.kind},
                    {"device", r.device},
                    {"updates", r.updates},
                    {"rows", r.rows},
                    {"batch", r.batch},
                    {"batch_min", r.batch_min},
                    {"batch_max", r.batch_max},
                    {"repeated_rows", r.repeated_rows},
                    {"busy_fraction", r.busy_fraction},
                    {"failed", r.failed()}});
  }
  return list;
}

}  // namespace crossbow
