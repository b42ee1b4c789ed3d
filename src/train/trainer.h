// The training loop and what it works with.
#pragma once

#include <chrono>
#include <memory>

#include "data/batch_source.h"
#include "plan/tuner.h"
#include "train/best_checkpoint.h"
#include "train/checkpoint.h"
#include "train/learner_search.h"
#include "train/notes.h"
#include "train/rank_segments.h"
#include "train/run_config.h"
#include "train/run_folder.h"
#include "train/save_timer.h"
#include "train/schedule.h"
#include "train/step_recorder.h"
#include "train/team.h"
#include "train/train.h"

namespace crossbow {

/// One run. Everything is opened, compiled and allocated when it is made; `run` then only computes,
/// on the engine's workers, unless it is still looking for the best number of learners. One thread.
class Trainer {
 public:
  /// `folder` is the run's, or null; `from` is the state to start from, or null. What else is
  /// passed by pointer, and the last two, must outlive the trainer.
  Trainer(const GraphFunction& graph, const RunConfig& config, RunFolder* folder,
          const Checkpoint* from, Throughput& throughput, Observer& observer);

  /// Throws RankLost if a rank is.
  TrainResult run();
  /// After that, by all ranks that are left, once the world has recovered: what this one has come
  /// to, of use until the trainer changes or goes. The segment under way, of about half a second,
  /// is to be done again.
  Checkpoint salvage();
  /// How many of that segment's samples this rank's learners have trained on.
  int64_t samples_to_repeat() { return in_segment_ ? engine().samples_done() : 0; }
  int64_t epochs() const { return std::ssize(history_); }

 private:
  using Settled = std::vector<std::pair<std::string_view, std::string>>;

  void open_records();
  /// With what open options have come to; again whenever that or the rate's factor changes.
  void write_config();
  /// Of the team beside that of one learner; empty where it is the same.
  std::string rate_text() const;
  /// Options that are left open, and what the team takes for them.
  Settled settled_texts() const;
  bool stop_timing(int64_t timed);
  void make_team(const TeamConfig& team);
  /// Makes the team, from a state that may have had another number of learners: those that it
  /// does not know start from the central model, with zero momentum.
  void arrange(const TeamConfig& team, const Checkpoint* from);
  /// Between two segments of training, as part of it: what is due of the changes that the run made
  /// before it was resumed, or what the search wants.
  void make_changes();
  /// False, and all is as before, if so many more learners cannot be had.
  bool make(const LearnerChange& change);
  /// The others go on without a learner that has failed, from what all had in common.
  void lose(const LearnerLoss& loss);
  void tell_refusal(const Arrangement& arrangement, const std::exception& why);
  /// So many learners train from now on, perhaps without one that there was, and the rate moves to
  /// what they need. False as of make.
  bool go_on_with(const Arrangement& arrangement, std::optional<int> lost = {});
  /// What the choice of kernels and of learners has come to, into the run's folder.
  void write_settings();
  int64_t exchanges_by_now(const TeamConfig& team) const;
  std::optional<double> efficiency_now() const;
  /// Of a cluster: hands the kernels that rank 0 has chosen to the others.
  void share_choices();
  /// Of a cluster: all ranks have done so many batches of a segment. Whether one is to stop.
  bool meet(int64_t first, int64_t done, double seconds);
  bool any_rank_is_to_stop();
  void begin_batches();
  void move_rate();
  void tell_team();
  Engine& engine() { return *team_->engine; }

  /// These return false if they were asked to stop in between.
  bool train_epoch();
  bool train_segment();
  int64_t run(const Segment& segment);
  void tell_failures();
  void tell(const NodeFailure& failure);
  bool finish_epoch();
  bool evaluate(EpochRecord& record);

  /// Takes note of the batches that ended since the last call, of the segment that began at
  /// `first`; `done` of it are done, perhaps the whole. An iteration is a batch for each learner;
  /// the last one of a segment may have fewer.
  void report(int64_t first, int64_t done, bool whole);
  void end_iteration_of_more();
  /// What is evaluated and saved, the same on all ranks. Throws Error if it is not.
  const Replica& model();
  Checkpoint state(const Replica& model) const;
  void save();
  void save(const Replica& model);
  /// Of the state that was saved last.
  void keep_if_best();
  void note_open_search();
  bool reached_target() const;
  bool out_of_patience() const;
  TrainResult result(bool interrupted) const;
  std::vector<WorkerReport> worker_reports() const;
  double mean_step_seconds(const TrainResult& r) const;
  std::string loss_became(double loss) const;
  /// `has_learned`: whether the weights have had an update before that.
  [[noreturn]] void fail_not_finite(const std::string& what, bool has_learned, double lr) const;
  std::string kept_checkpoint() const;

  int64_t samples() const { return batches_->samples(); }

  Observer& observer_;
  const std::chrono::steady_clock::time_point start_;
  const std::shared_ptr<const data::Dataset> dataset_;
  const RunConfig config_;  // whose teams the data set is large enough for
  const Graph graph_;
  Tuner tuner_;
  const std::unique_ptr<data::TrainingBatches> batches_;
  const Schedule schedule_;
  RunFolder* const folder_;  // of rank 0
  const bool saves_;         // whether there is one
  const bool salvaged_;      // goes on from what ranks that are lost have left
  SaveTimer save_timer_;
  std::optional<BestCheckpoint> best_;  // with --keep-best
  std::vector<float> losses_;           // of a segment, by batch
  std::optional<RankSegments> ranks_;   // of a cluster
  Position position_;
  bool in_segment_ = false;  // whose batches the position does not count yet
  std::vector<EpochRecord> history_;
  StepRecorder recorder_;
  LearnerSearch search_;
  LossWatch watch_;
  StatisticsWatch statistics_watch_;
  Position saved_;  // of the checkpoint that the folder holds
  std::unique_ptr<Team> team_;
  Team::OwnModels models_;  // of the last team, which another may have use for
};

/// train() for a net that is described by its graph and has that recipe.
TrainResult train_graph(const GraphFunction& graph, const TrainOptions& options,
                        const Recipe& recipe, Throughput& throughput, Observer& observer);

}  // namespace crossbow
