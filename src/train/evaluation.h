// Loss, accuracy and the like on a split that is not trained on.
#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "data/pipeline.h"
#include "learner/workers.h"
#include "plan/compiled_model.h"
#include "train/record.h"

namespace crossbow {

/// Gets what the model made of a batch: its samples from `first` on, and their logits, row-major
/// [samples, classes]. Several workers may call it at a time.
using LogitsFunction = std::function<void(int64_t first, std::span<const double> logits)>;

/// Images in an evaluation batch of a split of `samples`: training batches may be too small to fill
/// the machine.
int64_t evaluation_rows(int64_t training_rows,
                        int64_t samples = std::numeric_limits<int64_t>::max());

/// Binds replicas, workers with their workspaces, and a split; runs as often as asked.
class Evaluator {
 public:
  /// Compiles what a split of `samples` needs; to be called before the arena is made.
  static void compile(CompiledModel& model, int64_t samples, int64_t rows);

  static data::PipelineOptions pipeline_options(int64_t rows, int workers);

  /// The workers' OpenMP width is that of the model's programs. Those with a workspace evaluate,
  /// each by the replica of the same index, which must be on its device.
  Evaluator(CompiledModel& model, std::span<const Replica* const> replicas, Workers& workers,
            std::span<const Workspace> workspaces, const data::Dataset& dataset, int64_t rows);

  /// Nothing if `stop` said so in between; it is asked before each batch. `done` gets the number of
  /// samples after each batch. Any worker calls them.
  std::optional<Evaluation> run(const std::function<bool()>& stop,
                                const std::function<void(int64_t)>& done,
                                const LogitsFunction& logits = {});

 private:
  struct BoundPrograms {
    Execution whole, last;
  };
  struct Sums {
    double loss = 0, right = 0, top5 = 0;
  };
  Sums evaluate(const BoundPrograms& bound, int64_t batch, const LogitsFunction& logits);
  /// Of a cluster, whose ranks evaluate every so many batches each.
  void merge_ranks();
  /// Samples whose class is among the five likeliest.
  double count_top5(int64_t first, std::span<const double> logits) const;
  /// How much more the net takes the batch's samples for class 1.
  void keep_scores(int64_t first, std::span<const double> logits);
  std::optional<double> auc() const;

  const std::shared_ptr<const data::Split> split_;
  const bool numbers_;  // are the labels
  const int64_t classes_;
  const bool top5_;  // is counted
  int64_t samples_, rows_;
  Workers& workers_;
  std::vector<BoundPrograms> bound_;  // by worker
  std::vector<Sums> sums_;            // by batch
  std::vector<float> scores_;         // of two classes, by sample; else empty
  data::Pipeline pipeline_;
};

}  // namespace crossbow
