#include "cli/results.h"

#include <fmt/format.h>

#include "cli/output.h"

namespace crossbow::cli {

/// Names of files need not be UTF-8; JSON must.
void print_json(const Json& object) {
  put("{}\n", object.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string percent(double fraction) {
  return fmt::format("{:.2f} %", fraction * 100);
}

std::string rmse_text(double rmse) {
  return fmt::format("RMSE {:.4f}", rmse);
}

std::string top5_text(const std::optional<double>& top5) {
  return top5 ? fmt::format(", top-5 {}", percent(*top5)) : "";
}

std::string auc_text(const std::optional<double>& auc) {
  return auc ? fmt::format(", AUC {:.4f}", *auc) : "";
}

}  // namespace crossbow::cli
