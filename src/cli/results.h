// How commands put what they have found: as JSON, and in words.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace crossbow::cli {

/// JSON whose keys keep the order in which they were set.
using Json = nlohmann::ordered_json;
/// The one object that `--json` puts on standard output.
void print_json(const Json& object);

/// A fraction as "98.61 %".
std::string percent(double fraction);
/// ", top-5 92.10 %" and ", AUC 0.9634", or nothing where there is none.
std::string top5_text(const std::optional<double>& top5);
std::string auc_text(const std::optional<double>& auc);
/// "RMSE 0.9203".
std::string rmse_text(double rmse);

}  // namespace crossbow::cli
