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

/// Whether it was not there before.
bool make(const fs::path& path) {
  std::error_code error;
  const bool made = fs::create_directories(path, error);
  if (!fs::is_directory(path, error)) {
    fail("cannot make the folder {} ({}): choose another with --out", path.string(),
         error ? error.message() : "it is a file");
  }
  return made;
}

Descriptor lock(const fs::path& path) {
  if (auto mine = lock_folder(path)) return std::move(*mine);
  fail("another process is training into {}: wait for it, or choose another folder", path.string());
}

/// Files that may be the user's own, or of a run that may be gone on with.
void refuse_files_of_a_run(const fs::path& path) {
  const auto holds = [&](const char* file) {
    std::error_code error;
    return fs::exists(fs::symlink_status(path / file, error));
  };
  if (holds("checkpoint") || holds("checkpoint.previous")) {
    fail_usage(
        "--out {0}: the folder holds a run already; go on with it by --resume {0}, or choose "
        "another",
        path.string());
  }
  for (const char* file : {"checkpoint.best", "config.toml", "metrics.jsonl", "plan.json"}) {
    if (!holds(file)) continue;
    fail_usage(
        "--out {}: the folder holds a {} already, which the run would write over; choose another "
        "folder, or move that file away",
        path.string(), file);
  }
}

/// The changes of learners that a run made after its checkpoint: those that it knew of then, and
/// those that the log tells since.
std::vector<LearnerChange> changes_after(const Checkpoint& from, const fs::path& metrics) {
  std::vector<LearnerChange> changes = from.changes_ahead;
  std::ifstream file(metrics);
  file.seekg(from.metrics_bytes);
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

RunFolder RunFolder::begin(const fs::path& path) {
  return {path, /*resumed=*/false};
}

RunFolder RunFolder::go_on(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    fail_usage("--resume {}: give the run's folder, not a file in it", path.string());
  }
  return {path, /*resumed=*/true};
}

RunFolder::RunFolder(const fs::path& path, bool resumed)
    : path_(path), resumed_(resumed), made_(!resumed && make(path)), lock_(lock(path)) {
  if (!resumed) refuse_files_of_a_run(path);
}

RunFolder::~RunFolder() {
  std::error_code not_empty;
  if (made_) fs::remove(path_, not_empty);
}

Checkpoint RunFolder::load(const std::function<void(std::string_view)>& warn) {
  Checkpoint checkpoint = load_checkpoint(path_, warn);
  metrics_bytes_ = checkpoint.metrics_bytes;
  return checkpoint;
}

void RunFolder::open_records(const TrainOptions& options) {
  metrics_.emplace(path_ / "metrics.jsonl", metrics_bytes_);
  write_file_atomically(path_ / "config.toml", to_config(options));
}

void RunFolder::write_plan(const Choices& plan) {
  write_choices(path_ / "plan.json", plan);
}

Choices RunFolder::plan_before() const {
  return read_choices(path_ / "plan.json");
}

std::vector<LearnerChange> RunFolder::changes_after(const Checkpoint& from) const {
  return crossbow::changes_after(from, path_ / "metrics.jsonl");
}

}  // namespace crossbow
