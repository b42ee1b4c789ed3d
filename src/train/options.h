// What a training run is told. The command line, the TOML file of `--config` and the C++ API all
// fill this one struct; config.h lists its members by name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace crossbow {

namespace data {
struct Dataset;
}

/// An unset optional is "auto": what the sync algorithm needs, else the model's recipe, or chosen
/// by the program where the comment says so. A plain value.
struct TrainOptions {
  // What to train, on what.
  std::string model = "lenet";  // a name that `crossbow models` lists, options after a colon
  std::optional<std::string> data = {};  // NAME or NAME:DIR, as `crossbow data` lists
  /// Instead of `data`: a set that the program holds, see data/memory.h. Not part of a
  /// configuration file, so a run that is resumed must be given it again.
  std::shared_ptr<const data::Dataset> dataset = {};
  /// Side of images made from pictures; 0: as large as the first of an imagefolder, else the
  /// recipe's, or 224.
  int64_t image_size = 0;
  /// How training images are cut. none: the middle; pad: out of a border; resized: random
  /// parts of pictures, scaled, and of test pictures the middle 7/8. Auto: resized for pictures
  /// that stay encoded (imagenet, tfrecord, tar), else pad where the recipe has one.
  std::optional<std::string> crop = {};
  std::optional<double> crop_area = {};  // least share of a picture that resized cuts; auto: 0.08
  std::optional<int64_t> pad = {};  // around a training image, for crops; they normalise to about 0
  std::optional<bool> mirror = {};  // flip half of the training images

  // Who computes it.
  /// cpu; cpu:0,cpu:1 and so on for groups of its cores, each a device of its own; cuda, cuda:1 or
  /// cuda:0,cuda:1 for GPUs; or ref, the slow, plain reference.
  std::string device = "cpu";
  int64_t batch = 16;  // images a step and learner
  /// Neighbours of a set that stay together in an epoch's order, mixed with those of 63 other
  /// places; 0: any order.
  int64_t shuffle_block = 0;
  int64_t splits = 1;  // parts in which a learner takes a batch, to need less memory
  /// Of each device; auto: found while it trains, see tune_for.
  std::optional<int64_t> learners = {};
  std::optional<int64_t> threads_per_learner = {};  // auto: the device's cores shared out
  std::string sync = "sma";                         // how several learners agree, see sync/sync.h
  std::optional<int64_t> sync_period = {};  // steps between exchanges; auto: the algorithm's own
  std::optional<double> alpha = {};         // of an exchange; auto: the algorithm's own
  std::optional<double> central_momentum = {};  // of the central model; auto: the algorithm's own
  std::optional<double> averaging_eta = {};     // of a mean over time; auto: the algorithm's own

  // Of asynchronous algorithms (sync/async.h), whose learners are called nodes.
  /// Workers of unlike speed, in place of learners that are alike: KIND:key=value,… one after the
  /// other with a space in between, see train/workers_config.h. Auto: by the algorithm, the
  /// device's cores, and whether there is a GPU.
  std::optional<std::string> worker = {};
  /// How a worker's replica becomes part of the model: difference or overwrite; auto: difference.
  std::optional<std::string> merge = {};
  std::optional<double> gossip_probability = {};  // of a step; auto: the algorithm's own
  /// Steps that a node may be ahead of the slowest; auto: any.
  std::optional<int64_t> staleness = {};
  /// When nodes take turns. real: as they are ready; virtual: at seeded times, which repeats a run
  /// on any machine with this processor. Auto: real, or virtual with `deterministic`.
  std::optional<std::string> clock = {};
  std::optional<std::string> straggler = {};  // NODE:FACTOR,…: nodes that take as much longer
  // Of the virtual clock, to simulate machines:
  /// Seconds of an ordinary node's steps: constant:S, lognormal:S:SIGMA, uniform:S:SHARE or
  /// recorded:FILE. Auto: lognormal with a sigma of 0.1, and a step is the only unit.
  std::optional<std::string> step_times = {};
  std::optional<double> latency = {};    // seconds of a message; auto: 0
  std::optional<double> bandwidth = {};  // of a node's network card, bytes a second; auto: no limit
  std::optional<std::string> fail = {};  // NODE:SECOND,…: nodes that fail then

  std::optional<double> lease = {};  // seconds after which a node's step has failed; auto: never
  std::optional<std::string> replay = {};  // folder of a run whose turns are taken again

  /// Training images on which the evaluated model's batch-norm statistics are measured, in whole
  /// batches; 0: they are the mean of the learners'. Auto: 2048 for an asynchronous algorithm and
  /// for one whose model lags behind the learners, else 0.
  std::optional<int64_t> bn_images = {};
  std::string precision = "f32";  // or bf16, or tf32 on a GPU: weights and statistics stay f32
  uint64_t seed = 1;
  bool deterministic = false;  // no timed choice: the same bits on a fresh machine too
  std::optional<std::string> tune_for = {};  // goodput or throughput, of `learners` auto
  bool retune = false;  // look for the best number of learners again, and keep looking

  /// A file of safetensors with what parameters and states start as; auto: they are drawn from the
  /// seed. A last layer of another number of classes is drawn, too.
  std::optional<std::string> init = {};

  /// A regular expression: parameters in whose names it is found keep their values
  /// (passes/freeze.h).
  std::optional<std::string> freeze = {};

  /// What parameters and states start as, by their names in checkpoints, row-major; those not named
  /// are drawn from the seed. The values must stay valid until train() returns. Not part of a
  /// configuration file; of no use to a run that is resumed, which refuses it.
  std::map<std::string, std::span<const float>> first_weights;

  // For how long.
  std::optional<int64_t> epochs = {};
  std::optional<double> target_accuracy = {};  // of the test that ends the run; auto: none
  std::optional<double> target_loss = {};      // the same; not both
  std::optional<std::string> target_on = {};   // test or train: whose loss; auto: test
  int64_t eval_every = 1;                      // epochs between evaluations; the last one always is
  /// Stop when so many evaluations in a row brought no better test, by accuracy or, of ratings, by
  /// loss; auto: never.
  std::optional<int64_t> patience = {};

  // How.
  std::optional<std::string> loss = {};        // cross-entropy, sigmoid or mse: see models/loss.h
  std::optional<double> label_smoothing = {};  // of cross-entropy, in [0, 1); auto: 0
  std::string optimizer = "sgd";
  std::optional<double> lr = {};  // of one learner
  /// none, linear, sqrt or adascale: see train/rate_scaling.h.
  std::optional<std::string> lr_scaling = {};
  std::optional<std::string> lr_schedule = {};            // fixed, step, multistep or cosine
  std::optional<std::vector<double>> lr_milestones = {};  // epochs; of step: the one interval
  std::optional<double> lr_gamma = {};                    // factor at each milestone
  std::optional<double> warmup = {};                      // epochs over which the rate grows from 0
  std::optional<double> momentum = {};                    // heavy ball, PyTorch's form
  std::optional<bool> nesterov = {};
  std::optional<double> weight_decay = {};
  /// all, or weights: neither biases nor norms' scales and shifts, which have one dimension; auto:
  /// all.
  std::optional<std::string> weight_decay_on = {};
  std::optional<double> clip_norm = {};  // largest global norm of the gradient; auto: no limit

  // Where to, and how much to tell.
  /// The run's folder; auto: `crossbow train` makes one, train() none.
  std::optional<std::string> out = {};
  bool keep_best = false;   // keep the state with the best test as `checkpoint.best`
  double save_every = 30;   // minutes between checkpoints within an epoch, besides one at its end
  int64_t log_every = 100;  // steps between lines of metrics.jsonl

  /// Goes on with the run in this folder. All else must be as it was there, except `epochs`,
  /// `target_accuracy`, `target_loss`, `target_on`, `eval_every`, `patience`, `keep_best`,
  /// `save_every`, `log_every`, `lease`, `retune` and `out`; and it may go on with as many devices
  /// of another kind, by `device`, `precision` and the devices in `worker`. Not part of a
  /// configuration file.
  std::optional<std::string> resume = {};
  /// Where the launcher's MPI lets the others go on when ranks are lost: fewer do not. Not part of
  /// a configuration file either, nor of the run.
  int64_t min_ranks = 1;
};

}  // namespace crossbow
