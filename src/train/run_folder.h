// The folder that a run leaves behind: config.toml, plan.json, metrics.jsonl,
// learners.jsonl, the turns of an asynchronous run and checkpoints.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "plan/tuner.h"
#include "train/checkpoint.h"
#include "train/line_file.h"

namespace crossbow {

/// metrics.jsonl: lines of JSON, one every so many steps and one an epoch. Each line is the
/// system's when the call returns. Throws Error if it cannot be written.
class MetricsLog {
 public:
  /// Goes on after the first `keep_bytes` of the file; what follows is of steps to be done again.
  /// Calls `warn` if the file is shorter.
  MetricsLog(const std::filesystem::path& path, int64_t keep_bytes,
             const std::function<void(std::string_view)>& warn);

  /// `loss` is the mean since the last such line. Allocates nothing.
  void step(int64_t step, int64_t samples, double loss, double lr);
  /// `place`: whose nodes are told of; `workers`: unlike ones.
  void epoch(const EpochRecord& record, const EnginePlace& place,
             const std::vector<WorkerReport>& workers);
  /// All lines are on disk when the call returns.
  void sync() { file_.sync(); }
  int64_t bytes() const { return file_.bytes(); }

 private:
  LineFile file_;
};

/// The folders of `path` that are not there yet. What is made of them and still empty when this
/// goes is taken away again.
class MissingFolders {
 public:
  explicit MissingFolders(const std::filesystem::path& path);
  ~MissingFolders();
  MissingFolders(const MissingFolders&) = delete;

 private:
  std::vector<std::filesystem::path> paths_;  // the innermost first
};

/// Kept from other processes as long as this lives. The first file of a new run is its first
/// checkpoint: whatever ends the run leaves one that can be gone on with, or nothing.
class RunFolder {
 public:
  /// Of a new run: makes the folder unless it is there, until the run has put a file into it.
  /// Throws UsageError if it holds a file that the run would write, Error if it cannot be made or
  /// another process trains into it.
  static RunFolder begin(const std::filesystem::path& path);
  /// Of a run to go on with. Throws Error if another process trains into it, and still does after
  /// `patience`, UsageError if `path` is a file.
  static RunFolder go_on(const std::filesystem::path& path, std::chrono::seconds patience = {});
  RunFolder(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Loads the checkpoint of a resumed run. Throws and warns as load_checkpoint does.
  Checkpoint load(const std::function<void(std::string_view)>& warn);
  /// Whether the run has yet to save its first checkpoint.
  bool is_new() const { return !resumed_ && !metrics_; }

  /// To be called once there is a checkpoint: opens the metrics, of which those after the loaded
  /// checkpoint are of steps to be done again, unless they are open. Throws Error if they cannot be
  /// written.
  void open_records(const std::function<void(std::string_view)>& warn);
  bool has_records() const { return metrics_.has_value(); }
  /// Valid after open_records.
  MetricsLog& metrics() { return *metrics_; }
  /// Adds turns of asynchronous nodes (train/turns.h) to those of the checkpoint. If some of these
  /// are lost, calls `warn` and keeps none.
  void append_turns(std::string_view turns, const std::function<void(std::string_view)>& warn);
  /// The run comes to where it is by more than its turns: from the next ones on it keeps none.
  void forget_turns();
  /// Brings metrics and turns to disk: to be called before a checkpoint counts them.
  void sync();
  /// Length of the metrics that a checkpoint of now is to count.
  int64_t metrics_bytes() const { return metrics_ ? metrics_->bytes() : metrics_bytes_; }
  /// The same of the turns, those that are lost included.
  int64_t turns_bytes() const { return turns_ ? turns_->bytes() : turns_bytes_; }

  /// With each note as a comment.
  void write_config(const TrainOptions& options, const std::vector<std::string>& notes);
  void write_plan(const Choices& plan);
  /// What the run had chosen before, also after its checkpoint.
  Choices plan_before() const;
  LearnerLog& learners() { return learners_; }
  const LearnerLog& learners() const { return learners_; }
  /// The changes of learners that the run made after `position`, in order.
  std::vector<LearnerChange> changes_after(const Position& position) const;

 private:
  RunFolder(const std::filesystem::path& path, bool resumed, std::chrono::seconds patience);

  const std::filesystem::path path_;
  const bool resumed_;
  const MissingFolders missing_;
  Descriptor lock_;
  LearnerLog learners_;
  int64_t metrics_bytes_ = 0, turns_bytes_ = 0;  // of the checkpoint that was loaded
  std::optional<MetricsLog> metrics_;
  bool lost_turns_ = false;
  std::optional<LineFile> turns_;  // of an asynchronous run, once it has taken some
};

}  // namespace crossbow
