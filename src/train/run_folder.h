// The folder that a run leaves behind: config.toml, plan.json, metrics.jsonl and checkpoints.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/file.h"
#include "plan/tuner.h"
#include "train/checkpoint.h"

namespace crossbow {

/// Lines of JSON, one every so many steps and one an epoch. Each line is on its way to disk when
/// the call returns. Throws Error if it cannot be written.
class MetricsLog {
 public:
  /// Goes on after the first `keep_bytes` of the file; what follows is of steps to be done again.
  MetricsLog(const std::filesystem::path& path, int64_t keep_bytes);

  /// `loss` is the mean since the last such line. Allocates nothing.
  void step(int64_t step, int64_t samples, double loss, double lr);
  void epoch(const EpochRecord& record);
  void learners(const LearnerChange& change);
  int64_t bytes() const { return bytes_; }

 private:
  void write(const nlohmann::json& line);
  void write(const char* line, size_t length);

  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  int64_t bytes_;
};

class RunFolder {
 public:
  /// Throws UsageError if the folder that `options.out` names holds a run already and this is no
  /// continuation of it: known before anything is computed.
  static void check(const TrainOptions& options);
  /// Makes the folder unless it is there, and keeps other processes out of it. What the metrics
  /// hold beyond the checkpoint `from` (null: a new run) is of steps to be done again. Throws Error
  /// if it cannot be written or another process trains into it.
  RunFolder(const TrainOptions& options, const Checkpoint* from);
  /// Leaves nothing of a new run that failed before its first checkpoint.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;

  void write_plan(const Choices& plan);
  /// What the run had chosen before, also after its checkpoint.
  const Choices& plan_before() const { return plan_before_; }

  const std::filesystem::path& path() const { return path_; }
  MetricsLog& metrics() { return metrics_; }
  /// Those of the steps to be done again, in order; the metrics hold them already.
  const std::vector<LearnerChange>& changes_ahead() const { return changes_ahead_; }
  bool has_checkpoint() const;

 private:
  std::filesystem::path path_;
  Descriptor lock_;
  const bool new_;
  const Choices plan_before_;
  const std::vector<LearnerChange> changes_ahead_;  // read before metrics_ drops them
  MetricsLog metrics_;
};

}  // namespace crossbow
