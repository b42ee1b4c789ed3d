#include "train/session.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "data/memory.h"
#include "data/pipeline.h"
#include "learner/gradient_clip.h"
#include "plan/compiled_model.h"
#include "plan/named_tensors.h"
#include "plan/tuner.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/run_config.h"
#include "train/run_data.h"
#include "train/train.h"

namespace crossbow {
namespace {

/// Of a run of one learner that does the same, for the checkpoint and what `train` shares.
RunConfig run_config(const std::string& model, const SessionOptions& s, const Recipe& recipe) {
  TrainOptions o;
  o.model = model;
  o.data = s.data;
  o.dataset = s.dataset;
  o.pad = 0;
  o.mirror = false;
  o.device = s.device;
  o.batch = s.batch;
  o.loss = s.loss;
  o.label_smoothing = s.label_smoothing;
  o.learners = 1;
  o.threads_per_learner = s.threads_per_learner;
  o.sync = "none";
  o.precision = s.precision;
  o.seed = s.seed;
  o.deterministic = s.deterministic;
  o.lr = s.lr;
  o.momentum = s.momentum;
  o.nesterov = s.nesterov;
  o.weight_decay = s.weight_decay;
  o.weight_decay_on = s.weight_decay_on;
  o.clip_norm = s.clip_norm;
  return resolve(o, recipe);
}

/// Null for a session that has none.
std::shared_ptr<const data::Dataset> open(const SessionOptions& s, const RunConfig& config) {
  const int64_t side = config.options.image_size;
  auto dataset =
      s.data ? for_net(config, data::open_dataset(*s.data, {.image_size = {side, side}}), nullptr)
             : s.dataset;
  // Steps may also be given images, as floats.
  if (dataset) dataset = std::make_shared<const data::Dataset>(dataset->dense());
  if (!dataset) {
    if (s.image.rank() != 3 || s.classes < 1) {
      fail_usage(
          "a session without a data set needs the shape of an image, [channels, height, width], "
          "and a number of classes, not {} and {}",
          s.image.str(), s.classes);
    }
    return nullptr;
  }
  if (s.image.rank() > 0 || s.classes > 0) {
    fail_usage("image and classes are those of the data set: leave them out");
  }
  if (dataset->info.label != LabelKind::one_class) {
    fail_usage("a session's samples have one class each, but those of {} have {}",
               dataset->info.name,
               dataset->info.label == LabelKind::number ? "numbers" : "sets of classes");
  }
  if (s.batch > dataset->train->size()) {
    fail_usage("`batch` {}: {} has {} training images only", s.batch, dataset->info.name,
               dataset->train->size());
  }
  return dataset;
}

/// Released whatever becomes of the step.
class HeldBatch {
 public:
  HeldBatch(data::Pipeline& pipeline, int64_t index)
      : pipeline_(pipeline), batch_(pipeline.acquire(index)) {}
  HeldBatch(const HeldBatch&) = delete;
  ~HeldBatch() { pipeline_.release(batch_); }
  const data::Batch* operator->() const { return &batch_; }

 private:
  data::Pipeline& pipeline_;
  const data::Batch& batch_;
};

}  // namespace

class Session::State {
 public:
  State(const GraphFunction& graph, const RunConfig& config, const SessionOptions& s)
      : config_(config),
        dataset_(open(s, config_)),
        image_(dataset_ ? dataset_->info.image : s.image),
        classes_(dataset_ ? dataset_->info.classes : s.classes),
        lr_(config_.schedule.lr),
        model_(compile(graph)),
        pieces_(layout().pieces(config_.optimizer, layout().parameter_elements)),
        replica_(*model_.parameters(), find_device(config_.device.kind),
                 config_.optimizer.slots.size()),
        clip_(*replica_.device, config_.clip_norm) {
    if (!model_.options().update) {
      gradients_ = replica_.device->allocate_zeroed(replica_.parameters.size());
    }
    Replica first(layout(), /*with_gradients=*/false);
    initialise(layout(), first, config_.seed);
    take(first);
  }

  const ParameterLayout& layout() const { return *model_.parameters(); }
  const Replica& replica() const { return replica_; }
  void set_lr(double lr) {
    if (!(lr > 0 && std::isfinite(lr))) fail_usage("a rate of {}: it must be above 0", lr);
    lr_ = lr;
  }

  float step(std::span<const float> images, std::span<const int32_t> labels);
  float step();
  Evaluation evaluate(std::span<const float> images, std::span<const int32_t> labels);
  Evaluation evaluate();
  std::vector<float> predict(std::span<const float> images);
  Checkpoint checkpoint() const;
  void load(const Checkpoint& checkpoint);

 private:
  struct BoundProgram {
    BoundProgram(std::shared_ptr<const Program> program, const ReplicaView& replica,
                 const Workspace& workspace)
        : execution(std::move(program), replica, workspace),
          loss(execution.scalar_address("loss")) {}
    Execution execution;
    const float* loss;
  };
  using Programs = std::map<int64_t, BoundProgram>;  // by rows
  struct Sums {
    double loss = 0, right = 0;
  };

  CompiledModel compile(const GraphFunction& graph);
  /// Goes on from a replica in the host's memory.
  void take(const Replica& host);
  const BoundProgram& bound(Programs& programs, int64_t rows);
  int64_t rows_of(std::span<const float> images) const;
  Shape batch_shape(int64_t rows) const {
    std::vector<int64_t> dims(image_.begin(), image_.end());
    dims.insert(dims.begin(), rows);
    return Shape(dims);
  }
  void expect_labels(int64_t rows, std::span<const int32_t> labels) const;
  float step(const float* images, const int32_t* labels, int64_t rows, int64_t first_sample);
  void update(const UpdateStep& step);
  Sums evaluate(const float* images, const int32_t* labels, int64_t rows);
  const TeamConfig& team() const { return config_.teams.front(); }
  const data::Dataset& dataset() const;

  const RunConfig config_;
  const std::shared_ptr<const data::Dataset> dataset_;  // null without one
  const Shape image_;
  const int64_t classes_;
  double lr_;
  int64_t steps_ = 0;
  float loss_ = 0;  // of the last step
  Tuner tuner_;
  CompiledModel model_;
  const std::vector<ParameterLayout::Piece> pieces_;  // of an update after the programs
  Replica replica_;
  Buffer gradients_;  // of programs that do not update
  GradientClip clip_;
  std::optional<Workspace> workspace_;  // of all programs, which run one at a time
  Programs training_, evaluation_;
  std::unique_ptr<data::Pipeline> batches_;  // made by the first step that needs it
  int64_t epoch_ = 0, next_batch_ = 0;
};

CompiledModel Session::State::compile(const GraphFunction& graph) {
  find_device(config_.device.kind).expect_team(team().threads.threads);
  CompiledModel model(graph({image_, classes_, config_.batch, {}, config_.loss}),
                      config_.compile_options(team(), &tuner_));
  model.training(config_.batch);
  return model;
}

/// Every call that computes comes through here, on a thread whose team may have another width.
const Session::State::BoundProgram& Session::State::bound(Programs& programs, int64_t rows) {
  replica_.device->set_team(team().threads.threads);
  const auto it = programs.find(rows);
  if (it != programs.end()) return it->second;
  auto program = &programs == &training_ ? model_.training(rows) : model_.evaluation(rows);
  if (!workspace_ || !workspace_->holds(program->arena_bytes(), program->input_bytes())) {
    training_.clear();
    evaluation_.clear();
    workspace_.reset();  // there may be no memory for two
    workspace_.emplace(model_.make_workspace(*replica_.device));
  }
  ReplicaView view = replica_;
  view.gradients = gradients_.data();
  return programs.try_emplace(rows, std::move(program), view, *workspace_).first->second;
}

int64_t Session::State::rows_of(std::span<const float> images) const {
  const auto values = static_cast<int64_t>(images.size());
  if (values == 0 || values % image_.elements() != 0) {
    fail_usage("{} values are not a whole number of images of shape {}, which have {} each", values,
               image_.str(), image_.elements());
  }
  return values / image_.elements();
}

void Session::State::expect_labels(int64_t rows, std::span<const int32_t> labels) const {
  if (static_cast<int64_t>(labels.size()) != rows) {
    fail_usage("images of shape {} need {} labels, not {}", batch_shape(rows).str(), rows,
               labels.size());
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes_) {
      fail_usage("label {} is {}, but the net has the classes 0 to {}", i, labels[i], classes_ - 1);
    }
  }
}

float Session::State::step(std::span<const float> images, std::span<const int32_t> labels) {
  const int64_t rows = rows_of(images);
  if (rows != config_.batch) {
    fail_usage("a step takes images of shape {}, as batch says, not {}",
               batch_shape(config_.batch).str(), batch_shape(rows).str());
  }
  expect_labels(rows, labels);
  return step(images.data(), labels.data(), rows, steps_ * config_.batch);
}

float Session::State::step() {
  if (!batches_) {
    batches_ =
        std::make_unique<data::Pipeline>(dataset(), dataset().train, config_.training_batches(1));
    batches_->start(epoch_);
  }
  if (next_batch_ == batches_->batches()) {
    batches_->start(epoch_ + 1);
    ++epoch_;
    next_batch_ = 0;
  }
  const int64_t index = next_batch_++;
  const HeldBatch batch(*batches_, index);
  return step(batch->samples(), batch->labels(), batch->rows, index * config_.batch);
}

float Session::State::step(const float* images, const int32_t* labels, int64_t rows,
                           int64_t first_sample) {
  const BoundProgram& program = bound(training_, rows);
  Step step;
  step.inputs = {images, labels};
  step.seed = config_.seed;
  step.epoch = static_cast<uint32_t>(epoch_);
  step.first_sample = static_cast<uint64_t>(first_sample);
  step.update = config_.optimizer.at(lr_);
  program.execution.run(step);
  if (!model_.options().update) update(step.update);
  workspace_->queue().copy(&loss_, program.loss, sizeof loss_);
  workspace_->queue().finish();
  ++steps_;
  return loss_;
}

/// By the gradient that the last step's program has left.
void Session::State::update(const UpdateStep& step) {
  const VectorMath& math = workspace_->queue().math(layout().dtype);
  clip_.find_scale(math, gradients_.data(), layout().parameter_elements);
  for (const auto& [first, elements, decay] : pieces_) {
    const int64_t at = first * static_cast<int64_t>(size_of(layout().dtype));
    std::byte* const weights = replica_.parameters.data() + at;
    const SlotAddresses slots = addresses_of(replica_.slots, at);
    math.update(*config_.optimizer.rule, step,
                {weights, gradients_.data() + at, slots, nullptr, weights, clip_.scale(), decay},
                elements);
  }
}

Session::State::Sums Session::State::evaluate(const float* images, const int32_t* labels,
                                              int64_t rows) {
  const Execution& program = bound(evaluation_, rows).execution;
  Step step;
  step.inputs = {images, labels};
  program.run(step);
  const auto n = static_cast<double>(rows);
  return {program.scalar("loss") * n, std::round(program.scalar("accuracy") * n)};
}

Evaluation Session::State::evaluate(std::span<const float> images,
                                    std::span<const int32_t> labels) {
  const int64_t all = rows_of(images), most = evaluation_rows(config_.batch, all);
  expect_labels(all, labels);
  Sums total;
  for (int64_t first = 0; first < all; first += most) {
    const Sums sums = evaluate(images.data() + first * image_.elements(), labels.data() + first,
                               std::min(most, all - first));
    total.loss += sums.loss;
    total.right += sums.right;
  }
  const auto n = static_cast<double>(all);
  return {total.loss / n, total.right / n};
}

Evaluation Session::State::evaluate() {
  data::PipelineOptions p;
  p.batch = evaluation_rows(config_.batch, dataset().test->size());
  data::Pipeline batches(dataset(), dataset().test, p);
  batches.start(0);
  Sums total;
  for (int64_t b = 0; b < batches.batches(); ++b) {
    const HeldBatch batch(batches, b);
    const Sums sums = evaluate(batch->samples(), batch->labels(), batch->rows);
    total.loss += sums.loss;
    total.right += sums.right;
  }
  const auto n = static_cast<double>(batches.samples());
  return {total.loss / n, total.right / n};
}

std::vector<float> Session::State::predict(std::span<const float> images) {
  const int64_t all = rows_of(images), most = evaluation_rows(config_.batch, all);
  const std::vector<int32_t> labels(static_cast<size_t>(most));  // the loss is not wanted
  std::vector<float> logits;
  for (int64_t first = 0; first < all; first += most) {
    const int64_t rows = std::min(most, all - first);
    evaluate(images.data() + first * image_.elements(), labels.data(), rows);
    const auto values = evaluation_.at(rows).execution.values("logits");
    logits.insert(logits.end(), values.begin(), values.end());
  }
  return logits;
}

const data::Dataset& Session::State::dataset() const {
  if (!dataset_) fail_usage("the session has no data set: give the images, or set data or dataset");
  return *dataset_;
}

Checkpoint Session::State::checkpoint() const {
  if (!all_finite(layout(), replica_, {})) {
    fail("the weights are infinite or NaN, so that there is nothing to save: try a lower rate");
  }
  Checkpoint c;
  c.options = config_.options;
  c.image = image_;
  c.classes = classes_;
  c.samples = config_.batch;  // what is trained on without a data set, nobody knows
  if (dataset_) {
    c.class_names = dataset_->info.class_names;
    c.normalisation = dataset_->info.normalisation;
    c.samples = dataset_->train->size();
  }
  c.position.arrangement = team().arrangement;
  c.position.settled = true;
  c.position.step = steps_;
  c.plan = tuner_.choices();
  store(layout(), replica_, c);
  return c;
}

void Session::State::load(const Checkpoint& checkpoint) {
  const Replica loaded(layout(), /*with_gradients=*/false);
  restore(checkpoint, layout(), loaded);
  take(loaded);
}

void Session::State::take(const Replica& host) {
  for (const auto& [from, to] : {std::pair(&host.parameters, &replica_.parameters),
                                 std::pair(&host.states, &replica_.states)}) {
    if (to->size() > 0) replica_.device->copy_now(to->data(), from->data(), to->size());
  }
  for (const Buffer& slot : replica_.slots) replica_.device->zero_now(slot.data(), slot.size());
}

Session::Session(const ModelFunction& net, const SessionOptions& options) {
  const auto graph = [&](const ModelSpec& spec) { return classifier(kOwnModel, net, spec); };
  state_ = std::make_unique<State>(graph, run_config(kOwnModel, options, Recipe{}), options);
}

Session::Session(const std::string& model, const SessionOptions& options) {
  const auto graph = [&](const ModelSpec& spec) { return build_model(model, spec); };
  state_ =
      std::make_unique<State>(graph, run_config(model, options, find_model(model).recipe), options);
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<SessionTensor> Session::tensors() const {
  std::vector<SessionTensor> all;
  for (const auto& slot : state_->layout().parameters) {
    all.push_back({slot.name, slot.layout.shape, true});
  }
  for (const auto& slot : state_->layout().states) {
    all.push_back({slot.name, slot.layout.shape, false});
  }
  return all;
}

std::vector<float> Session::get(std::string_view name) const {
  return read_named(state_->layout(), state_->replica(), name);
}

void Session::set(std::string_view name, std::span<const float> values) {
  write_named(state_->layout(), state_->replica(), name, values);
}

void Session::set_lr(double lr) {
  state_->set_lr(lr);
}

float Session::step(std::span<const float> images, std::span<const int32_t> labels) {
  return state_->step(images, labels);
}

float Session::step() {
  return state_->step();
}

Evaluation Session::evaluate(std::span<const float> images, std::span<const int32_t> labels) {
  return state_->evaluate(images, labels);
}

Evaluation Session::evaluate() {
  return state_->evaluate();
}

std::vector<float> Session::predict(std::span<const float> images) {
  return state_->predict(images);
}

void Session::save(const std::filesystem::path& folder) const {
  const Checkpoint checkpoint = state_->checkpoint();
  make_folder(folder);
  save_checkpoint(folder, checkpoint);
}

void Session::load(const std::filesystem::path& run,
                   const std::function<void(std::string_view)>& warn) {
  state_->load(load_checkpoint(run, [&](std::string_view text) {
    if (warn) warn(text);
  }));
}

}  // namespace crossbow
