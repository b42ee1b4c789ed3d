// A run's records as JSON: in checkpoints, metrics.jsonl and `crossbow train --json`.
#pragma once

#include <nlohmann/json.hpp>

#include "train/record.h"

namespace crossbow {

/// Unset numbers are null.
nlohmann::json to_json(const std::optional<double>& value);
nlohmann::json to_json(const EpochRecord& record);
nlohmann::json to_json(const std::vector<EpochRecord>& history);
nlohmann::json to_json(const LearnerChange& change);
/// What nodes have done.
nlohmann::json to_json(const std::vector<NodeState>& nodes);
nlohmann::json to_json(const std::vector<LostNode>& lost);
nlohmann::json to_json(const std::vector<WorkerReport>& workers);
nlohmann::json to_json(const Position& position);

/// Throws Error unless the object has such a whole number.
int64_t integer_from(const nlohmann::json& object, const char* key, int64_t least, int64_t most);

// The reverse; all throw nlohmann::json::exception or Error for what to_json has not made,
// or what no run on any machine has.
std::vector<EpochRecord> history_from_json(const nlohmann::json& value);
LearnerChange change_from_json(const nlohmann::json& value);
Position position_from_json(const nlohmann::json& value);

}  // namespace crossbow
