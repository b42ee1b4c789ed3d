#include "train/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "train/config.h"
#include "train/record_json.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

fs::path made(const TrainOptions& options) {
  const fs::path path = *options.out;
  std::error_code error;
  fs::create_directories(path, error);
  if (!fs::is_directory(path)) {
    fail("cannot make the folder {} ({}): choose another with --out", path.string(),
         error ? error.message() : "it is a file");
  }
  return path;
}

Descriptor lock(const fs::path& path) {
  if (auto mine = lock_folder(path)) return std::move(*mine);
  fail("another process is training into {}: wait for it, or choose another folder with --out",
       path.string());
}

/// The changes of learners that a run made after its checkpoint: those that it knew of then, and
/// those that the log tells since.
std::vector<LearnerChange> changes_after(const Checkpoint* from, const fs::path& metrics) {
  if (!from) return {};
  std::vector<LearnerChange> changes = from->changes_ahead;
  std::ifstream file(metrics);
  file.seekg(from->metrics_bytes);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("threads_per_learner")) continue;
    const LearnerChange change = change_from_json(json);
    // A resumed run writes those ahead of it again.
    if (std::find(changes.begin(), changes.end(), change) == changes.end()) {
      changes.push_back(change);
    }
  }
  return changes;
}

}  // namespace

MetricsLog::MetricsLog(const fs::path& path, int64_t keep_bytes) : path_(path) {
  file_.reset(std::fopen(path.c_str(), "a"));
  if (!file_) fail("cannot write {} ({})", path.string(), std::strerror(errno));
  std::error_code error;
  bytes_ = std::min(keep_bytes, static_cast<int64_t>(fs::file_size(path, error)));
  fs::resize_file(path, static_cast<uintmax_t>(bytes_), error);
}

void MetricsLog::step(int64_t step, int64_t samples, double loss, double lr) {
  char line[256];
  const auto end =
      fmt::format_to_n(line, sizeof line, "{{\"step\":{},\"samples\":{},\"loss\":{},\"lr\":{}}}\n",
                       step, samples, loss, lr);
  write(line, std::min(end.size, sizeof line));
}

void MetricsLog::epoch(const EpochRecord& record) {
  write(to_json(record));
}

void MetricsLog::learners(const LearnerChange& change) {
  write(to_json(change));
}

void MetricsLog::write(const nlohmann::json& line) {
  const std::string text = line.dump() + '\n';
  write(text.data(), text.size());
}

void MetricsLog::write(const char* line, size_t length) {
  if (std::fwrite(line, 1, length, file_.get()) != length || std::fflush(file_.get()) != 0) {
    fail("cannot write {} ({}): make room or choose another folder with --out", path_.string(),
         std::strerror(errno));
  }
  bytes_ += static_cast<int64_t>(length);
}

void RunFolder::check(const TrainOptions& options) {
  if (options.resume || !options.out || !fs::exists(fs::path(*options.out) / "checkpoint")) return;
  fail_usage(
      "--out {0}: the folder holds a run already; go on with it by --resume {0}, or choose "
      "another",
      *options.out);
}

RunFolder::RunFolder(const TrainOptions& options, const Checkpoint* from)
    : path_(made(options)),
      lock_(lock(path_)),
      new_(!from),
      plan_before_(from ? read_choices(path_ / "plan.json") : Choices()),
      changes_ahead_(changes_after(from, path_ / "metrics.jsonl")),
      metrics_(path_ / "metrics.jsonl", from ? from->metrics_bytes : 0) {
  for (const LearnerChange& change : changes_ahead_) metrics_.learners(change);
  write_file_atomically(path_ / "config.toml", to_config(options));
}

/// Without a checkpoint there is nothing to go on with.
RunFolder::~RunFolder() {
  if (!new_ || has_checkpoint()) return;
  std::error_code ignored;
  for (const char* file : {"config.toml", "metrics.jsonl", "plan.json"}) {
    fs::remove(path_ / file, ignored);
  }
  fs::remove(path_, ignored);  // unless there is something else in it
}

void RunFolder::write_plan(const Choices& plan) {
  write_choices(path_ / "plan.json", plan);
}

bool RunFolder::has_checkpoint() const {
  return fs::exists(path_ / "checkpoint");
}

}  // namespace crossbow
