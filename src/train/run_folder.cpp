#include "train/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "core/error.h"
#include "train/config.h"
#include "train/record_json.h"
#include "train/turns.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

void make(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    fail("cannot make the folder {} ({}): choose another with `out`", path.string(),
         error ? error.message() : "it is a file");
  }
}

Descriptor lock(const fs::path& path, std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    if (auto mine = lock_folder(path)) return std::move(*mine);
    if (patience.count() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (std::chrono::steady_clock::now() < end);
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
        "`out` {0}: the folder holds a run already; go on with it by `resume` {0}, or choose "
        "another",
        path.string());
  }
  for (const char* file :
       {"checkpoint.best", "checkpoint.best.next", "checkpoint.kept", "config.toml",
        "metrics.jsonl", "learners.jsonl", "plan.json", kTurnsFile}) {
    if (!holds(file)) continue;
    fail_usage(
        "`out` {}: the folder holds a {} already, which the run would write over; choose another "
        "folder, or move that file away",
        path.string(), file);
  }
}

}  // namespace

MissingFolders::MissingFolders(const fs::path& path) {
  const auto is_missing = [](const fs::path& p) {
    std::error_code error;
    return fs::symlink_status(p, error).type() == fs::file_type::not_found;
  };
  for (fs::path p = path; !p.empty() && is_missing(p); p = p.parent_path()) paths_.push_back(p);
}

MissingFolders::~MissingFolders() {
  for (const fs::path& path : paths_) ::rmdir(path.c_str());  // unless it holds something
}

MetricsLog::MetricsLog(const fs::path& path, int64_t keep_bytes,
                       const std::function<void(std::string_view)>& warn)
    : file_(path) {
  const int64_t missing = keep_bytes - bytes();
  if (missing <= 0) {
    file_.cut(keep_bytes);
    return;
  }
  file_.cut(static_cast<int64_t>(file_.read().rfind('\n') + 1));  // the last whole line
  warn(fmt::format("{} is {} bytes shorter than the checkpoint says: lines are missing",
                   path.string(), missing));
}

void MetricsLog::step(int64_t step, int64_t samples, double loss, double lr) {
  char line[256];
  const auto end =
      fmt::format_to_n(line, sizeof line, "{{\"step\":{},\"samples\":{},\"loss\":{},\"lr\":{}}}\n",
                       step, samples, loss, lr);
  file_.append({line, std::min(end.size, sizeof line)});
}

void MetricsLog::epoch(const EpochRecord& record, const EnginePlace& place,
                       const std::vector<WorkerReport>& workers) {
  nlohmann::json line = to_json(record);
  if (!place.nodes.empty()) line["nodes"] = to_json(place.nodes);
  if (!place.lost.empty()) line["lost_nodes"] = to_json(place.lost);
  if (!workers.empty()) line["workers"] = to_json(workers);
  file_.append(line.dump() + '\n');
}

RunFolder RunFolder::begin(const fs::path& path) {
  return {path, /*resumed=*/false, {}};
}

RunFolder RunFolder::go_on(const fs::path& path, std::chrono::seconds patience) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    fail_usage("`resume` {}: give the run's folder, not a file in it", path.string());
  }
  return {path, /*resumed=*/true, patience};
}

RunFolder::RunFolder(const fs::path& path, bool resumed, std::chrono::seconds patience)
    : path_(path), resumed_(resumed), missing_(path), learners_(path / "learners.jsonl") {
  if (!resumed) make(path);
  lock_ = lock(path, patience);
  if (!resumed) refuse_files_of_a_run(path);
}

Checkpoint RunFolder::load(const std::function<void(std::string_view)>& warn) {
  Checkpoint checkpoint = load_checkpoint(path_, warn);
  metrics_bytes_ = checkpoint.metrics_bytes;
  turns_bytes_ = checkpoint.turns_bytes;
  learners_.read(warn);
  if (learners_.size() < checkpoint.position.changes) {
    warn(fmt::format(
        "{} lacks {} of the {} lines that the checkpoint knows: changes of learners after it are "
        "not made again",
        (path_ / "learners.jsonl").string(), checkpoint.position.changes - learners_.size(),
        checkpoint.position.changes));
  }
  return checkpoint;
}

void RunFolder::open_records(const std::function<void(std::string_view)>& warn) {
  if (!metrics_) metrics_.emplace(path_ / "metrics.jsonl", metrics_bytes_, warn);
}

void RunFolder::write_config(const TrainOptions& options, const std::vector<std::string>& notes) {
  std::string text = to_config(options);
  for (const std::string& note : notes) text += fmt::format("# {}\n", note);
  write_file_atomically(path_ / "config.toml", text);
}

void RunFolder::append_turns(std::string_view turns,
                             const std::function<void(std::string_view)>& warn) {
  const fs::path path = path_ / kTurnsFile;
  if (!turns.empty() && !turns_ && !lost_turns_) {
    turns_.emplace(path);
    if (turns_->bytes() < turns_bytes_) {
      warn(fmt::format("{} lacks turns before the checkpoint, so `replay` cannot repeat this run",
                       path.string()));
      forget_turns();
    } else {
      turns_->cut(turns_bytes_);
    }
  }
  if (lost_turns_) {
    std::error_code error;
    fs::remove(path, error);
    turns_bytes_ += std::ssize(turns);
  } else if (!turns.empty()) {
    turns_->append(turns);
  }
}

void RunFolder::forget_turns() {
  turns_bytes_ = turns_bytes();
  turns_.reset();
  lost_turns_ = true;
}

void RunFolder::sync() {
  if (metrics_) metrics_->sync();
  if (turns_) turns_->sync();
}

void RunFolder::write_plan(const Choices& plan) {
  write_choices(path_ / "plan.json", plan);
}

Choices RunFolder::plan_before() const {
  return read_choices(path_ / "plan.json");
}

std::vector<LearnerChange> RunFolder::changes_after(const Position& position) const {
  const std::pair place(position.epoch, position.batch);
  const auto& all = learners_.changes();
  auto first = all.begin() + std::min(position.changes, learners_.size());
  while (first != all.end() && first->place() < place) ++first;
  return {first, all.end()};
}

}  // namespace crossbow
