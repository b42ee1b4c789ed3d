#include "train/trained_model.h"

#include <algorithm>
#include <deque>

#include "core/error.h"
#include "device/device.h"
#include "models/model.h"
#include "plan/tuner.h"
#include "train/notes.h"
#include "train/recipe.h"
#include "train/run_data.h"
#include "train/train.h"

namespace crossbow {
namespace {

Checkpoint load(const std::filesystem::path& run,
                const std::function<void(std::string_view)>& warn) {
  Checkpoint checkpoint = load_checkpoint(run, warn);
  if (checkpoint.options.model == kOwnModel) {
    fail("{} is of a net that a program of your own declares: use it there", run.string());
  }
  return checkpoint;
}

/// Nothing of how it was trained: one learner's program, on all of this machine's cores.
TrainOptions inference_options(const TrainOptions& trained) {
  TrainOptions o;
  o.model = trained.model;
  o.data = trained.data;
  o.crop = trained.crop == "resized" ? "resized" : "none";  // a test crops nothing at random
  o.device = device_list(trained.device).kind;
  if (is_missing(o.device)) o.device = o.device.substr(0, o.device.find(':'));
  if (is_missing(o.device)) o.device = "cpu";
  o.batch = trained.batch;
  const bool rounds = trained.precision == "tf32" && !is_gpu(o.device);  // its products alone
  o.precision = rounds ? "f32" : trained.precision;
  o.loss = trained.loss;
  o.label_smoothing = trained.label_smoothing;
  o.deterministic = trained.deterministic;
  o.sync = "none";
  return o;
}

RunConfig inference_config(TrainOptions o) {
  if (!has_pictures(o)) o.crop.reset();
  if (device_list(o.device).count > 1) {  // that share the cores as learners' devices would
    o.sync = "ssgd";
    o.learners = 1;
  }
  return resolve(o, find_model(o.model).recipe);
}

std::shared_ptr<const data::Dataset> open(const std::string& name, const Shape& image,
                                          bool encoded) {
  data::OpenOptions open;
  open.keep_encoded = encoded;
  if (image.rank() == 3) open.image_size = {image[1], image[2]};
  return data::open_dataset(name, open);
}

}  // namespace

TrainedModel::TrainedModel(const std::filesystem::path& run,
                           const std::function<TrainOptions(TrainOptions)>& change,
                           std::function<void(std::string_view)> warn)
    : warn_(std::move(warn)),
      checkpoint_(load(run, warn_)),
      config_(inference_config(change(inference_options(checkpoint_.options)))) {
  if (const auto note = precision_note(config_)) warn_(*note);
}

std::shared_ptr<const data::Dataset> TrainedModel::open_data() const {
  auto dataset = open(config_.data, checkpoint_.image, config_.augment.least_area > 0);
  dataset = for_net(config_, std::move(dataset), &checkpoint_);
  const data::Info& info = dataset->info;
  if (!checkpoint_.fits(info)) {
    fail("the model takes inputs of {}, but {} has {}{}",
         data::shape_text(checkpoint_.image, checkpoint_.classes, checkpoint_.groups), info.name,
         data::shape_text(info.image, info.classes, info.groups),
         checkpoint_.groups.empty() ? "" : "; and users and items need the same numbers");
  }
  if (!info.note.empty()) warn_(info.note);
  const std::vector<std::string>& names = checkpoint_.class_names;
  const auto [was, is] =
      std::mismatch(names.begin(), names.end(), info.class_names.begin(), info.class_names.end());
  if (was != names.end()) {
    warn_(fmt::format("the model's class {} is '{}', that of {} is '{}': they count as the same",
                      was - names.begin(), *was, config_.data, *is));
  }
  return dataset;
}

data::Info TrainedModel::info() const {
  if (!checkpoint_.normalisation || checkpoint_.class_names.empty()) {
    warn_(
        fmt::format("the checkpoint does not name its classes: they, and the normalisation, are "
                    "taken from {}",
                    config_.data));
    return open_data()->info;
  }
  return {.name = *checkpoint_.options.data,
          .image = checkpoint_.image,
          .classes = checkpoint_.classes,
          .class_names = checkpoint_.class_names,
          .normalisation = *checkpoint_.normalisation,
          .centre = config_.centre,
          .label = checkpoint_.label,
          .groups = checkpoint_.groups,
          .sample_type = DType::u8};
}

Evaluation TrainedModel::run(const data::Dataset& dataset, const LogitsFunction& logits) const {
  const TeamConfig& team = config_.teams.front();
  const auto devices = find_devices(config_.device.kind, config_.device.count);
  devices.front()->expect_team(team.threads.threads);
  Tuner tuner;
  tuner.preset(checkpoint_.plan);
  const ModelSpec spec = spec_of(dataset.info, config_.batch, config_.loss);
  CompiledModel model(build_model(config_.model, spec), config_.compile_options(team, &tuner));
  const int64_t samples = dataset.test->size();
  const int64_t rows = evaluation_rows(config_.batch, samples);
  Evaluator::compile(model, samples, rows);
  const DeviceKind kind = device_kind(config_.device.kind);
  const ThreadPlan plan =
      plan_threads(kind, config_.device.count, kind.cores, team.threads.threads);
  Workers workers(devices, plan);
  std::deque<Replica> replicas;            // by device
  std::vector<const Replica*> replica_of;  // by worker
  std::vector<Workspace> workspaces;
  for (Device* device : devices) {
    Replica& replica = replicas.emplace_back(*model.parameters(), *device);
    restore(checkpoint_, *model.parameters(), replica);
    for (int w = 0; w < plan.workers; ++w) {
      replica_of.push_back(&replica);
      workspaces.push_back(model.make_workspace(*device));
    }
  }
  Evaluator evaluator(model, replica_of, workers, workspaces, dataset, rows);
  return *evaluator.run([] { return false; }, [](int64_t) {}, logits);
}

}  // namespace crossbow
