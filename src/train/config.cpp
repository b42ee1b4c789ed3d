#include "train/config.h"

#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/error.h"
#include "core/number.h"

namespace crossbow {
namespace {

using O = TrainOptions;

constexpr bool kMayChange = true;

const std::array kTable = {
    OptionEntry{"model", "NAME", "the net, as `crossbow models` lists them", &O::model},
    OptionEntry{"data", "NAME[:DIR]", "the data set, as `crossbow data` lists them", &O::data},
    OptionEntry{
        "image-size", "N",
        "side of images made from pictures; 0: what the net is for (224; inception-v3: 299; "
        "overfeat: 231), or as the first of an imagefolder",
        &O::image_size},
    OptionEntry{"crop", "NAME",
                "none; pad: out of a border; resized: random parts of pictures, scaled", &O::crop},
    OptionEntry{"crop-area", "SHARE", "least part of a picture that resized cuts", &O::crop_area},
    OptionEntry{"pad", "N",
                "pixels around training images, for random crops; they normalise to about 0",
                &O::pad},
    OptionEntry{"mirror", "", "flip half of the training images", &O::mirror},
    OptionEntry{"shuffle-block", "N",
                "neighbours that stay together in an epoch's order, for slow disks; 0: none",
                &O::shuffle_block},
    OptionEntry{"device", "NAME",
                "cpu; cpu:0,cpu:1,…: its cores in groups, each a device; cuda; cuda:1; "
                "cuda:0,cuda:1,…: GPUs; ref: the slow reference",
                &O::device},
    OptionEntry{"batch", "N", "images a step and learner; with `worker`: those that lr is for",
                &O::batch},
    OptionEntry{
        "splits", "N",
        "at most so many parts of a batch, one by one, to need less memory; batch norm sees a part",
        &O::splits},
    OptionEntry{"learners", "N|auto",
                "replicas trained side by side on each device; auto: found by trying",
                &O::learners},
    OptionEntry{"threads-per-learner", "N|auto", "auto: the device's cores, shared out",
                &O::threads_per_learner},
    OptionEntry{"sync", "NAME", "how learners agree, by a name below; none: one learner", &O::sync},
    OptionEntry{"sync-period", "TAU",
                "steps between exchanges, or of sma's mean over time with one learner; of "
                "adaptive-sgd: as many largest steps of each worker; auto: the algorithm's own",
                &O::sync_period},
    OptionEntry{
        "alpha", "A|auto",
        "how far an exchange moves weights; with `worker`: the factor between sizes of steps; "
        "auto: the algorithm's own",
        &O::alpha},
    OptionEntry{"central-momentum", "M", "momentum of the central model; auto: the algorithm's own",
                &O::central_momentum},
    OptionEntry{"averaging-eta", "ETA",
                "weight of recent steps in the mean over time; 0: all steps count equally",
                &O::averaging_eta},
    OptionEntry{
        "worker", "KIND:KEY=V,..",
        "of hogbatch and adaptive ones, repeatable: live:threads=1,batch=1-16 changes the model "
        "as hogwild does; replica:threads=1,batch=16-256 makes steps on a copy, which is "
        "merged; replica:device=cuda,batch=512-8192 on a GPU",
        &O::worker, !kMayChange, ' '},
    OptionEntry{"merge", "NAME",
                "of hogbatch's replicas: difference, or overwrite, which loses what others did",
                &O::merge},
    OptionEntry{"gossip-probability", "P",
                "that a step is followed by gossip; auto: the algorithm's own",
                &O::gossip_probability},
    OptionEntry{"staleness", "N",
                "steps that a node may be ahead of the slowest one, with a server; auto: any",
                &O::staleness},
    OptionEntry{
        "clock", "real|virtual",
        "nodes take turns as they are ready, or at seeded times; virtual also tells how "
        "long learners that wait would take; auto: real, of nodes virtual with deterministic",
        &O::clock},
    OptionEntry{"straggler", "N:F,N:F",
                "stretch the steps of learner N by a factor F; of learners that wait by the "
                "virtual clock only",
                &O::straggler},
    OptionEntry{"step-times", "KIND:S",
                "seconds of an ordinary learner's steps on the virtual clock: constant:S, "
                "lognormal:S:SIGMA, uniform:S:SHARE (S·(1−SHARE) to S·(1+SHARE)) or recorded:FILE",
                &O::step_times},
    OptionEntry{"latency", "SECONDS", "of a message between learners on the virtual clock",
                &O::latency},
    OptionEntry{"bandwidth", "BYTES",
                "a second, that a learner's network card sends and as many that it receives, on "
                "the virtual clock; auto: no limit",
                &O::bandwidth},
    OptionEntry{"fail", "N:S,N:S",
                "node N fails S seconds after the run began, on the virtual clock", &O::fail},
    OptionEntry{"lease", "SECONDS",
                "drop a node whose step takes longer, and give its batch to another", &O::lease,
                kMayChange},
    OptionEntry{"replay", "RUN",
                "repeat the asynchronous run in this folder, its nodes' turns in the same order",
                &O::replay},
    OptionEntry{"init", "FILE",
                "start from the weights in this file, as crossbow export or safetensors write it",
                &O::init},
    OptionEntry{"freeze", "REGEX",
                "keep parameters as they are in whose names this is found, repeatable: "
                "'layer[1-3]\\.'; batch norm too, by its running statistics",
                &O::freeze, !kMayChange, '|'},
    OptionEntry{"bn-images", "N|auto",
                "training images that measure the evaluated model's batch norm; 0: the learners' "
                "mean",
                &O::bn_images},
    OptionEntry{"precision", "f32|tf32|bf16",
                "of activations and products; tf32: f32, products on "
                "a GPU of rounded operands",
                &O::precision},
    OptionEntry{"seed", "N", "of all that is random", &O::seed},
    OptionEntry{"deterministic", "",
                "choose kernels and learners without timing, so that machines alike agree",
                &O::deterministic},
    OptionEntry{"retune", "",
                "look for the best number of learners anew, and again whenever the speed changes",
                &O::retune, kMayChange},
    OptionEntry{"tune-for", "NAME",
                "choose learners for goodput (images/s times the share of them that count) or for "
                "throughput",
                &O::tune_for},
    OptionEntry{"epochs", "N", "passes over the training images", &O::epochs, kMayChange},
    OptionEntry{"target-accuracy", "A", "stop at this test accuracy, a fraction",
                &O::target_accuracy, kMayChange},
    OptionEntry{"target-loss", "L", "stop at this loss", &O::target_loss, kMayChange},
    OptionEntry{"target-on", "NAME", "which loss: test, or train, the mean over an epoch's steps",
                &O::target_on, kMayChange},
    OptionEntry{"eval-every", "N", "epochs between evaluations", &O::eval_every, kMayChange},
    OptionEntry{
        "patience", "N",
        "stop after so many evaluations without a better test: a higher accuracy or, of ratings, "
        "a smaller loss",
        &O::patience, kMayChange},
    OptionEntry{"loss", "NAME",
                "cross-entropy; sigmoid: of each class alone; mse: mean squared error; auto: the "
                "model's own, of factorisation mse, else cross-entropy",
                &O::loss},
    OptionEntry{"label-smoothing", "S",
                "share of cross-entropy's target that is spread over all classes",
                &O::label_smoothing},
    OptionEntry{"optimizer", "sgd", "stochastic gradient descent", &O::optimizer},
    OptionEntry{"lr", "R", "learning rate of one learner", &O::lr},
    OptionEntry{
        "lr-scaling", "NAME",
        "rate of k learners: that of one times 1 (none), k (linear), its root (sqrt) or what "
        "the noise of the gradients allows (adascale); with `worker`, of a step on k `batch`es",
        &O::lr_scaling},
    OptionEntry{"lr-schedule", "NAME", "fixed, step, multistep or cosine", &O::lr_schedule},
    OptionEntry{"lr-milestones", "E,E",
                "epochs at which multistep drops the rate; step: how many between drops",
                &O::lr_milestones},
    OptionEntry{"lr-gamma", "F", "what each drop multiplies the rate by", &O::lr_gamma},
    OptionEntry{"warmup", "E", "epochs over which the rate grows from 0", &O::warmup},
    OptionEntry{"momentum", "M", "heavy-ball momentum", &O::momentum},
    OptionEntry{"nesterov", "", "Nesterov's momentum instead", &O::nesterov},
    OptionEntry{"weight-decay", "W", "added to the gradient, times the weights", &O::weight_decay},
    OptionEntry{"weight-decay-on", "NAME",
                "what decays: all, or weights: neither biases nor norms' scales and shifts",
                &O::weight_decay_on},
    OptionEntry{"clip-norm", "C", "largest norm of the whole gradient", &O::clip_norm},
    OptionEntry{"out", "DIR", "folder for the run's files", &O::out, kMayChange},
    OptionEntry{"keep-best", "", "keep the state with the best test as checkpoint.best",
                &O::keep_best, kMayChange},
    OptionEntry{"save-every", "MINUTES",
                "between checkpoints within an epoch, besides one at its end", &O::save_every,
                kMayChange},
    OptionEntry{"log-every", "N", "steps between lines of metrics.jsonl", &O::log_every,
                kMayChange},
};

template <typename T>
struct ValueOf {
  using Type = T;
};
template <typename T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};

template <typename Number>
Number parse_number(std::string_view name, std::string_view text, std::string_view kind) {
  const auto value = number_of<Number>(text);
  if (!value) fail_usage("{}: '{}' is not {}", name, text, kind);
  return *value;
}

double parse_real(std::string_view name, std::string_view text) {
  const auto value = parse_number<double>(name, text, "a number");
  if (!std::isfinite(value)) fail_usage("{}: '{}' is not a finite number", name, text);
  return value == 0 ? 0 : value;  // no negative zero: TOML would read it back as an integer's
}

/// What the resolved configuration can say again: UTF-8, without the delete character.
std::string parse_string(std::string_view name, std::string_view text) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  const nlohmann::json value(text);
  const bool valid = nlohmann::json::parse(value.dump(-1, ' ', false, kReplace)) == value;
  if (!valid) fail_usage("{}: its value is not UTF-8 text", name);
  if (text.find('\x7f') != text.npos) fail_usage("{}: its value holds a delete character", name);
  return std::string(text);
}

template <typename T>
T parse(std::string_view name, std::string_view text) {
  if constexpr (std::is_same_v<T, std::string>) {
    return parse_string(name, text);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") fail_usage("{}: '{}' is not true or false", name, text);
    return text == "true";
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    // TOML's integers end at 2^63 − 1, and the resolved configuration must be able to say it.
    const auto value = parse_number<int64_t>(name, text, "a whole number below 2^63");
    if (value < 0) fail_usage("{}: {} is negative", name, text);
    return static_cast<uint64_t>(value);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return parse_number<int64_t>(name, text, "a whole number");
  } else if constexpr (std::is_same_v<T, double>) {
    return parse_real(name, text);
  } else {
    std::vector<double> values;
    while (!text.empty()) {
      const size_t comma = text.find(',');
      values.push_back(parse_real(name, text.substr(0, comma)));
      if (comma == text.npos) break;
      text.remove_prefix(comma + 1);
      if (text.empty()) fail_usage("{}: there is nothing after the last comma", name);
    }
    return values;
  }
}

template <typename T>
std::string text_of(const T& value) {
  return fmt::format("{}", value);
}
std::string text_of(const std::vector<double>& value) {
  return fmt::format("{}", fmt::join(value, ","));
}
template <typename T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "auto";
}

template <typename T>
bool is_set(const T&) {
  return true;
}
template <typename T>
bool is_set(const std::optional<T>& value) {
  return value.has_value();
}

}  // namespace

std::span<const OptionEntry> option_table() {
  return kTable;
}

const OptionEntry* find_option(std::string_view name) {
  for (const OptionEntry& entry : kTable) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

void set_option(TrainOptions& options, const OptionEntry& entry, std::string_view text) {
  std::visit(
      [&](auto member) {
        auto& field = options.*member;
        using Field = std::remove_reference_t<decltype(field)>;
        using Value = typename ValueOf<Field>::Type;
        constexpr bool kOptional = !std::is_same_v<Field, Value>;
        if constexpr (kOptional) {
          if (text == "auto") {
            field.reset();
            return;
          }
        }
        if constexpr (std::is_same_v<Value, std::string>) {
          if (text.empty()) fail_usage("{}: it is empty; leave it out", entry.name);
        }
        field = parse<Value>(entry.name, text);
      },
      entry.member);
}

std::string option_text(const TrainOptions& options, const OptionEntry& entry) {
  return std::visit([&](auto member) { return text_of(options.*member); }, entry.member);
}

bool option_is_set(const TrainOptions& options, const OptionEntry& entry) {
  return std::visit([&](auto member) { return is_set(options.*member); }, entry.member);
}

std::vector<std::pair<std::string_view, std::string>> settled_texts(const TrainOptions& open,
                                                                    const TrainOptions& settled) {
  std::vector<std::pair<std::string_view, std::string>> texts;
  for (const OptionEntry& entry : option_table()) {
    if (option_is_set(open, entry) || !option_is_set(settled, entry)) continue;
    texts.emplace_back(entry.name, option_text(settled, entry));
  }
  return texts;
}

void check_same_run(const TrainOptions& before, const TrainOptions& now, std::string_view to) {
  for (const OptionEntry& entry : option_table()) {
    const std::string was = option_text(before, entry), is = option_text(now, entry);
    if (!entry.may_change && was != is) {
      fail_usage("`{}` {}: the run to {} has {}, and another would make another run of it",
                 entry.name, is, to, was);
    }
  }
}

}  // namespace crossbow
