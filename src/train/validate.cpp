#include "train/validate.h"

#include <array>
#include <utility>

#include "comm/world.h"
#include "core/error.h"
#include "core/nearest.h"
#include "core/text.h"
#include "data/memory.h"
#include "device/device.h"
#include "passes/freeze.h"
#include "sync/async.h"
#include "sync/check_options.h"
#include "train/clock_config.h"
#include "train/config.h"
#include "train/recipe.h"
#include "train/schedule.h"
#include "train/team_config.h"
#include "train/workers_config.h"

namespace crossbow {
namespace {

void expect_name(std::string_view option, std::string_view value,
                 std::initializer_list<std::string_view> known) {
  std::string list;
  for (const std::string_view name : known) {
    if (value == name) return;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  fail_usage("`{}` {}: this version knows {}{}", option, value, list,
             did_you_mean(value, std::span(known.begin(), known.size())));
}

template <typename T>
void expect_at_least(std::string_view option, const std::optional<T>& value, T least) {
  if (value && !(*value >= least))
    fail_usage("`{}` {}: it must be at least {}", option, *value, least);
}

void expect_at_most(std::string_view option, const std::optional<int64_t>& value, int64_t most) {
  if (value && *value > most) fail_usage("`{}` {}: it must be at most {}", option, *value, most);
}

void expect_positive(std::string_view option, const std::optional<double>& value) {
  if (value && !(*value > 0)) fail_usage("`{}` {}: it must be above 0", option, *value);
}

/// A program may set what no flag would, and the configuration must be able to say it again.
void validate_texts(const TrainOptions& o) {
  TrainOptions again;
  for (const OptionEntry& entry : option_table()) {
    set_option(again, entry, option_text(o, entry));
  }
}

void validate_device(const TrainOptions& o) {
  const DeviceList devices = device_list(o.device);
  if (!is_device(devices.kind)) expect_name("device", devices.kind, {"cpu", kGpus, "ref"});
  const DeviceKind kind = device_kind(devices.kind);
  if (kind.devices == 0) fail_usage("`device` {}: there is no GPU: {}", o.device, kind.why_none);
  if (devices.count > kind.devices) {
    fail_usage("`device` {}: this process may use {} of kind {}{}", o.device,
               count(kind.devices, "device"), devices.kind,
               kind.cpus.empty() ? "" : ", one a core");
  }
  for (int d = 1; d < devices.count && !kind.types.empty(); ++d) {
    const std::string &first = kind.types.front(), &other = kind.types[static_cast<size_t>(d)];
    if (other == first) continue;
    fail_usage("`device` {}: {} is of type {}, {} of type {}; a run needs devices of one type",
               o.device, device_name(devices.kind, 0), first, device_name(devices.kind, d), other);
  }
  if (!o.resume && o.threads_per_learner.value_or(1) > kind.threads) {
    fail_usage("`threads-per-learner` {}: on {} a learner can have {}", *o.threads_per_learner,
               devices.kind, count(kind.threads, "thread"));
  }
}

void validate_learners(const TrainOptions& o) {
  expect_at_least<int64_t>("learners", o.learners, 1);
  expect_at_most("learners", o.learners, int64_t{kMostLearners});
  const auto refuse = [&](bool set, std::string_view name) {
    if (!set || looks_for_learners(o)) return;
    fail_usage("`{}`: with {} there is no number of learners to look for", name,
               o.learners        ? "`learners`"
               : o.deterministic ? "`deterministic`"
               : world()         ? "several ranks"
                                 : "`sync` " + o.sync);
  };
  refuse(o.retune, "retune");
  refuse(o.tune_for && !o.resume, "tune-for");
  if (o.tune_for) expect_name("tune-for", *o.tune_for, {"goodput", "throughput"});
}

/// What a run of several ranks cannot do yet.
void validate_ranks(const TrainOptions& o) {
  if (!world()) return;
  const std::string ranks = fmt::format("{} ranks", world_size());
  if (o.sync == "none") {
    fail_usage("`sync` none: {} need an algorithm by which they agree, for example sma", ranks);
  }
  const std::string_view remedy =
      o.resume ? "go on with that run in one process" : "leave it out, or train by one process";
  if (find_async(o.sync) && o.deterministic) {
    fail_usage(
        "`deterministic`: nodes of {} meet as they are ready, so that no two runs are alike; {}",
        ranks, remedy);
  }
  for (const auto& [name, set] : {std::pair{"staleness", o.staleness.has_value()},
                                  {"lease", o.lease.has_value()},
                                  {"fail", o.fail.has_value()},
                                  {"replay", o.replay && !world()->is_of_threads()}}) {
    if (set) fail_usage("`{}`: it is of nodes of one process in this version; {}", name, remedy);
  }
  if (is_gpu(device_list(o.device).kind)) {
    fail_usage("`device` {}: ranks train on CPUs only in this version; {}", o.device, remedy);
  }
  if (device_list(o.device).count > 1) {
    fail_usage("`device` {}: each rank has one device in this version; start more ranks", o.device);
  }
  if (o.clock) fail_usage("`clock` {}: that of {} is the real one; leave it out", *o.clock, ranks);
  if (o.lr_scaling == "adascale") {
    fail_usage("`lr-scaling` adascale: for {} it does not exist yet; choose linear", ranks);
  }
}

/// The options that asynchronous nodes alone have a use for, and whether they are set.
std::array<std::pair<std::string_view, bool>, 4> of_nodes(const TrainOptions& o) {
  return {{{"gossip-probability", o.gossip_probability.has_value()},
           {"staleness", o.staleness.has_value()},
           {"lease", o.lease.has_value()},
           {"replay", o.replay.has_value()}}};
}

/// Whether the algorithm suits the schedule, and one learner alone its options.
void validate_agreement(const TrainOptions& o) {
  if (o.lr_scaling)
    expect_name("lr-scaling", *o.lr_scaling, {"none", "linear", "sqrt", "adascale"});
  if (o.lr_scaling && is_alone(o) && !o.resume) {
    fail_usage(
        "`lr-scaling` {}: the rate is that of one learner, and there is no other; leave it out",
        *o.lr_scaling);
  }
  if (o.merge && !find_async(o.sync)) {
    fail_usage("`merge` {}: with `sync` {} nobody merges; leave it out, or choose hogbatch",
               *o.merge, o.sync);
  }
  if (o.sync != "none") {
    const bool nodes = find_async(o.sync), alone = is_alone(o) && !o.resume;
    for (const auto& [name, set] : of_nodes(o)) {
      if (!set || nodes || alone) continue;
      fail_usage(
          "`{}`: the learners of `sync` {} wait for each other; leave it out, or choose an "
          "asynchronous algorithm, for example async-easgd",
          name, o.sync);
    }
    if (o.resume) return;  // it keeps its learners, whatever this machine would take
    if (sync_needs(o.sync).rate_drops && !drops_the_rate(*o.lr_schedule)) {
      fail_usage(
          "`lr-schedule` {0}: `sync` {1} changes when the rate first drops, which {0} never does; "
          "leave it out, or choose step or multistep with `lr-milestones`",
          *o.lr_schedule, o.sync);
    }
    if (nodes && device_list(o.device).count > 1) {
      fail_usage("`device` {}: asynchronous nodes are of one device in this version", o.device);
    }
    if (!alone) return;
  }
  if (o.learners.value_or(1) > 1) {
    fail_usage("`learners` {}: say how they are to agree, for example with `sync` sma",
               *o.learners);
  }
  if (device_list(o.device).count > 1) {
    fail_usage("`device` {}: say how its learners are to agree, for example with `sync` sma",
               o.device);
  }
  constexpr std::string_view kAlone = "one learner alone has nobody to agree with";
  refuse_unused(sync_options(o, 1), sync_alone(o.sync).value_or(SyncUses{}), kAlone);
  const auto refuse = [&](std::string_view name, bool set) {
    if (set) fail_usage("`{}`: {}; leave it out", name, kAlone);
  };
  for (const auto& [name, set] : of_nodes(o)) refuse(name, set);
  refuse("fail", o.fail.has_value());
}

void validate_schedule(const TrainOptions& o) {
  const std::string& schedule = *o.lr_schedule;
  expect_name("lr-schedule", schedule, {"fixed", "step", "multistep", "cosine"});
  const bool drops = drops_the_rate(schedule);
  if (!drops && (o.lr_milestones || o.lr_gamma)) {
    fail_usage(
        "`lr-{}`: the schedule is {}, which does not drop the rate; add `lr-schedule` multistep{}",
        o.lr_milestones ? "milestones" : "gamma", schedule,
        o.lr_milestones ? "" : " and `lr-milestones`");
  }
  if (drops && (!o.lr_milestones || o.lr_milestones->empty())) {
    fail_usage("`lr-schedule` {}: say when with `lr-milestones`", schedule);
  }
  if (schedule == "step" && o.lr_milestones->size() != 1) {
    fail_usage("`lr-milestones`: schedule step takes one number, the epochs between two drops");
  }
  double last = 0;
  for (const double epoch : o.lr_milestones.value_or(std::vector<double>{})) {
    if (!(epoch > last)) {
      fail_usage("`lr-milestones`: they must ascend from above 0, but {} follows {}", epoch, last);
    }
    last = epoch;
  }
}

void validate_loss(const TrainOptions& o) {
  expect_name("loss", *o.loss, {"cross-entropy", "sigmoid", "mse"});
  if (!o.label_smoothing) return;
  const auto smoothing = static_cast<float>(*o.label_smoothing);  // as the loss has it
  if (!(smoothing >= 0 && smoothing < 1)) {
    fail_usage("`label-smoothing` {}: it must be at least 0 and below 1", *o.label_smoothing);
  }
  if (o.loss != "cross-entropy") {
    fail_usage("`label-smoothing` {}: `loss` {} smooths no labels; leave it out",
               *o.label_smoothing, *o.loss);
  }
}

void validate_weight_decay(const TrainOptions& o) {
  expect_at_least<double>("weight-decay", o.weight_decay, 0);
  if (!o.weight_decay_on) return;
  expect_name("weight-decay-on", *o.weight_decay_on, {"all", "weights"});
  if (o.weight_decay == 0.0) {
    fail_usage("`weight-decay-on` {}: with a `weight-decay` of 0 nothing decays; leave it out",
               *o.weight_decay_on);
  }
}

void validate_target_loss(const TrainOptions& o) {
  if (o.target_loss && o.target_accuracy) {
    fail_usage("`target-loss` and `target-accuracy`: a run has one target; leave one of them out{}",
               o.resume ? ", or set that of the run that goes on to auto" : "");
  }
  if (o.target_loss && !(*o.target_loss >= 0 && std::isfinite(*o.target_loss))) {
    fail_usage("`target-loss` {}: losses are numbers from 0 on", *o.target_loss);
  }
  if (!o.target_on) return;
  expect_name("target-on", *o.target_on, {"test", "train"});
  if (!o.target_loss) fail_usage("`target-on` {} needs a `target-loss`", *o.target_on);
}

void validate_crop(const TrainOptions& o) {
  expect_name("crop", *o.crop, {"none", "pad", "resized"});
  if (o.crop == "resized" && !has_pictures(o)) {
    fail_usage(
        "`crop` resized: {} has images of one size; parts are cut out of pictures only, with "
        "`data` imagefolder:DIR, imagenet:DIR, tfrecord:DIR or tar:DIR; choose pad",
        *o.data);
  }
  if (o.crop == "pad" && *o.pad == 0) {
    fail_usage("`crop` pad: there is no border; set `pad`, or `crop` none");
  }
  if (o.crop != "pad" && *o.pad > 0) {
    fail_usage("`pad` {}: `crop` {} has no border; leave one of them out", *o.pad, *o.crop);
  }
  if (!o.crop_area) return;
  if (o.crop != "resized") {
    fail_usage("`crop-area` {}: only `crop` resized has it; leave it out", *o.crop_area);
  }
  if (!(*o.crop_area > 0 && *o.crop_area <= 1)) {
    fail_usage("`crop-area` {}: it must be more than 0 and at most 1", *o.crop_area);
  }
}

void validate_data(const TrainOptions& o) {
  expect_at_least<int64_t>("image-size", std::optional(o.image_size), 0);
  expect_at_most("image-size", std::optional(o.image_size), int64_t{4096});
  if (o.dataset && o.data != data::kMemory) {
    fail_usage("`data` {}: dataset is set too; leave one of them out", *o.data);
  }
  if (o.image_size > 0 && !has_pictures(o)) {
    fail_usage(
        "`image-size` {}: only pictures are scaled, with `data` imagefolder:DIR, imagenet:DIR, "
        "tfrecord:DIR or tar:DIR",
        o.image_size);
  }
  validate_crop(o);
}

void validate_steps(const TrainOptions& o) {
  constexpr int64_t kLargestBatch = 1 << 20;
  if (o.batch < 1 || o.batch > kLargestBatch) {
    fail_usage("`batch` {}: it must be between 1 and {}", o.batch, kLargestBatch);
  }
  if (o.splits < 1 || o.splits > o.batch) {
    fail_usage("`splits` {}: a batch of {} can be taken in 1 to {} parts", o.splits, o.batch,
               o.batch);
  }
  expect_at_least<int64_t>("threads-per-learner", o.threads_per_learner, 1);
  expect_at_least<int64_t>("epochs", o.epochs, 1);
  expect_at_least<int64_t>("eval-every", std::optional(o.eval_every), 1);
  expect_at_least<int64_t>("patience", o.patience, 1);
  expect_at_least<int64_t>("log-every", std::optional(o.log_every), 1);
  expect_positive("save-every", o.save_every);
  expect_at_least<int64_t>("pad", o.pad, 0);
  expect_at_least<int64_t>("shuffle-block", std::optional(o.shuffle_block), 0);
  expect_at_least<int64_t>("bn-images", o.bn_images, 0);
  expect_at_most("pad", o.pad, 4096);
  expect_at_most("epochs", o.epochs, 1000000000);
}

}  // namespace

void validate_work(const TrainOptions& o) {
  validate_device(o);
  validate_data(o);
  validate_steps(o);
  validate_learners(o);
  validate_ranks(o);
  validate_workers(o);
}

void validate_learning(const TrainOptions& o) {
  validate_clock(o);
  validate_agreement(o);
  validate_schedule(o);
  validate_loss(o);
  if (o.keep_best && !o.out) {
    fail_usage("`keep-best`: there is no folder to keep the best checkpoint in; set `out`");
  }
  if (o.resume && !o.first_weights.empty()) {
    fail_usage("first_weights: a resumed run goes on with the weights that it has; leave them out");
  }
  expect_name("precision", o.precision, {"f32", "tf32", "bf16"});
  if (o.precision == "tf32" && !is_gpu(device_list(o.device).kind) && !has_worker_on_gpu(o)) {
    fail_usage("`precision` tf32: only GPUs have it; on {} choose f32 or bf16", o.device);
  }
  expect_name("optimizer", o.optimizer, {"sgd"});
  if (o.freeze) name_pattern(*o.freeze);
  if (o.device == "ref" && o.precision != "f32") {
    fail_usage("`precision` {}: the reference device computes in f32 only", o.precision);
  }
  expect_positive("lr", o.lr);
  expect_positive("lr-gamma", o.lr_gamma);
  expect_positive("clip-norm", o.clip_norm);
  expect_at_least<double>("warmup", o.warmup, 0);
  validate_weight_decay(o);
  expect_at_least<double>("momentum", o.momentum, 0);
  if (*o.momentum >= 1) fail_usage("`momentum` {}: it must be below 1", *o.momentum);
  if (*o.nesterov && o.momentum == 0.0) fail_usage("`nesterov` needs a `momentum` above 0");
  expect_positive("target-accuracy", o.target_accuracy);
  if (o.target_accuracy.value_or(0) > 1) {
    fail_usage("`target-accuracy` {}: it is a fraction, so at most 1 (0.98 for 98 %)",
               *o.target_accuracy);
  }
  validate_target_loss(o);
  validate_texts(o);
  // A run's record must be read back when it is resumed.
  TrainOptions again;
  apply_config(again, to_config(o), "the run's config.toml");
}

}  // namespace crossbow
