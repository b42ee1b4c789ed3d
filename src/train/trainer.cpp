#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "train/setup.h"

namespace crossbow {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::shared_ptr<const data::Dataset> open(const TrainOptions& options, const Checkpoint* from,
                                          Observer& observer) {
  data::OpenOptions open;
  open.image_size = options.image_size;
  open.progress = [&](std::string_view what, int64_t done, int64_t total) {
    observer.loading(what, done, total);
  };
  auto dataset = data::open_dataset(*options.data, open);
  const int64_t samples = dataset->train->size();
  if (options.batch > samples) {
    fail_usage("--batch {}: {} has {} training images only", options.batch, *options.data, samples);
  }
  const int64_t batches = (samples + options.batch - 1) / options.batch;
  if (*options.learners > batches) {
    fail_usage("--learners {}: {} has only {} batches of {} images", *options.learners,
               *options.data, batches, options.batch);
  }
  if (from && (from->image != dataset->info.image || from->classes != dataset->info.classes ||
               from->samples != samples)) {
    fail(
        "{} is not the data that the run was trained on: it had {} images of shape {} in {} "
        "classes",
        *options.data, from->samples, from->image.str(), from->classes);
  }
  return dataset;
}

/// All programs of the run, so that the arena can be made.
CompiledModel compile(const GraphFunction& graph, const TrainOptions& options,
                      const data::Dataset& dataset, Tuner& tuner, const Checkpoint* from) {
  if (from) tuner.preset(from->plan);
  const ModelSpec spec{dataset.info.image, dataset.info.classes, options.batch, {}};
  CompiledModel model(graph(spec), compile_options(options, &tuner));
  model.training(options.batch);
  const int64_t last = dataset.train->size() % options.batch;
  if (last > 0) model.training(last);
  Evaluator::compile(model, dataset.test->size(), evaluation_rows(options.batch));
  return model;
}

data::PipelineOptions pipeline_options(const TrainOptions& options) {
  data::PipelineOptions p;
  p.batch = options.batch;
  p.shuffle = true;
  p.augment.pad = static_cast<int>(*options.pad);
  p.augment.mirror = *options.mirror;
  p.seed = options.seed;
  // A learner that exchanges every time may be two iterations ahead of another, whose batch keeps
  // its buffer. With a longer period the buffers are the limit.
  p.least_depth = static_cast<int>(4 * *options.learners);
  return p;
}

}  // namespace

Trainer::Trainer(const GraphFunction& graph, const TrainOptions& options, const Checkpoint* from,
                 Observer& observer)
    : options_(options),
      observer_(observer),
      start_(Clock::now()),
      dataset_(open(options, from, observer)),
      model_(compile(graph, options, *dataset_, tuner_, from)),
      engine_(model_, sync_of(options),
              engine_options(options, dataset_->train->size() % options.batch)),
      evaluator_(model_, engine_.model(), engine_.workers(), engine_.arenas(), *dataset_,
                 evaluation_rows(options.batch)),
      pipeline_(*dataset_, dataset_->train, pipeline_options(options)),
      schedule_(Schedule::of(options, dataset_->train->size())),
      losses_(static_cast<size_t>(pipeline_.batches())) {
  if (options.out) {
    folder_.emplace(options, tuner_.choices(), from ? from->metrics_bytes : 0);
  }
  Replica first(engine_.layout(), /*with_gradients=*/false);
  if (from) {
    restore(*from, engine_.layout(), first);
  } else {
    initialise(engine_.layout(), first, options.seed);
  }
  engine_.start_from(first);
  if (from) {
    restore(*from, engine_.layout(), engine_.buffers());
    position_ = from->position;
    history_ = from->history;
    if (Central* central = engine_.central()) {
      central->restore(position_.exchanges, position_.since_exchange);
    }
  }
  if (options.sync != "none" && !engine_.central()) {
    observer.note(fmt::format("one learner alone: --sync {} is plain SGD", options.sync));
  }
  observer.started(options, samples());
}

TrainResult Trainer::run() {
  while (position_.epoch < *options_.epochs && !reached_target()) {
    if (!train_epoch() || !finish_epoch()) {
      save();
      return result(true);
    }
    save();
  }
  return result(false);
}

bool Trainer::train_epoch() {
  Progress& progress = observer_.progress;
  progress.phase = Progress::Phase::training;
  progress.epoch = position_.epoch;
  progress.done = std::min(position_.batch * options_.batch, samples());
  progress.total = samples();
  pipeline_.start(position_.epoch, position_.batch);
  bool done = true;
  while (done && position_.batch < pipeline_.batches()) done = train_segment();
  position_.waiting_seconds += pipeline_.waited_seconds() / engine_.workers().count();
  return done;
}

/// To the end of the epoch, or to the next drop of the rate.
bool Trainer::train_segment() {
  const int64_t k = engine_.learners(), first = position_.batch;
  const int64_t drops = schedule_.drops(samples_seen());
  const int64_t until_drop = schedule_.next_drop(samples_seen()) - samples_seen();
  const int64_t iterations = (until_drop - 1) / (k * options_.batch) + 1;
  const int64_t left = pipeline_.batches() - first;
  const auto start = Clock::now();
  const double before = position_.seconds;

  Segment segment;
  segment.source = &pipeline_;
  segment.epoch = position_.epoch;
  segment.epoch_batches = pipeline_.batches();
  segment.first_batch = first;
  segment.batches = iterations > left / k ? left : iterations * k;
  segment.after_first_drop = drops > 0;
  segment.rate = [this](int64_t batch) { return rate(batch); };
  segment.stop = [this] { return observer_.stop_requested(); };
  segment.losses = losses_;
  segment.progress = [&](int64_t done) { report(first, done); };
  const int64_t done = engine_.run(segment);
  position_.seconds = before + seconds_since(start);

  if (Central* central = engine_.central()) {
    position_.exchanges = central->exchanges();
    position_.since_exchange = central->since_exchange();
    if (central->traits().restarts && schedule_.drops(samples_seen()) > drops) engine_.restart();
  }
  return done == segment.batches;
}

void Trainer::report(int64_t first, int64_t done) {
  const int64_t k = engine_.learners(), end = first + done;
  while (position_.batch < end) {
    const int64_t n = std::min(k, end - position_.batch);
    report_iteration(std::span(losses_).subspan(static_cast<size_t>(position_.batch - first),
                                                static_cast<size_t>(n)));
  }
  observer_.progress.done.store(std::min(position_.batch * options_.batch, samples()),
                                std::memory_order_relaxed);
}

void Trainer::report_iteration(std::span<const float> losses) {
  Position& p = position_;
  const double lr = rate(p.batch);
  ++p.step;
  double sum = 0;
  int64_t rows = 0;
  for (const float loss : losses) {
    if (!std::isfinite(loss)) fail_not_finite(loss, lr);
    sum += static_cast<double>(loss) * static_cast<double>(rows_of(p.batch));
    rows += rows_of(p.batch);
    ++p.batch;
  }
  p.loss_sum += sum;
  p.logged_loss_sum += sum;
  p.logged_rows += rows;
  if (p.step % options_.log_every == 0) {
    const double mean = p.logged_loss_sum / static_cast<double>(p.logged_rows);
    if (folder_) folder_->metrics().step(p.step, samples_seen(), mean, lr);
    p.logged_loss_sum = 0;
    p.logged_rows = 0;
  }
  const auto loss = static_cast<float>(sum / static_cast<double>(rows));
  std::atomic<float>& shown = observer_.progress.loss;
  const float before = shown.load(std::memory_order_relaxed);
  shown.store(std::isnan(before) ? loss : before + (loss - before) * 0.02f,
              std::memory_order_relaxed);
}

bool Trainer::finish_epoch() {
  EpochRecord record;
  record.epoch = position_.epoch + 1;
  record.train_loss = position_.loss_sum / static_cast<double>(samples());
  record.seconds = position_.seconds;
  record.images_per_second = static_cast<double>(samples()) / position_.seconds;
  record.learners = *options_.learners;
  const bool last = record.epoch == *options_.epochs;
  if ((last || record.epoch % options_.eval_every == 0) && !evaluate(record)) return false;

  history_.push_back(record);
  if (folder_) folder_->metrics().epoch(record);
  ++position_.epoch;
  position_.batch = 0;
  position_.loss_sum = position_.seconds = 0;
  observer_.epoch_done(record);
  return true;
}

bool Trainer::evaluate(EpochRecord& record) {
  Progress& progress = observer_.progress;
  progress.done = 0;
  progress.total = dataset_->test->size();
  progress.phase = Progress::Phase::evaluating;
  engine_.snapshot();
  const auto evaluation = evaluator_.run([&] { return observer_.stop_requested(); },
                                         [&](int64_t done) { progress.done = done; });
  if (!evaluation) return false;
  // The last update of the epoch may have been the one too many.
  if (!std::isfinite(evaluation->loss)) {
    fail_not_finite(static_cast<float>(evaluation->loss), schedule_.rate(samples_seen()));
  }
  record.test_loss = evaluation->loss;
  record.test_accuracy = evaluation->accuracy;
  return true;
}

void Trainer::save() {
  if (!folder_) return;
  Checkpoint checkpoint;
  checkpoint.options = options_;
  checkpoint.image = dataset_->info.image;
  checkpoint.classes = dataset_->info.classes;
  checkpoint.samples = samples();
  checkpoint.position = position_;
  checkpoint.history = history_;
  checkpoint.plan = tuner_.choices();
  checkpoint.metrics_bytes = folder_->metrics().bytes();
  store(engine_.layout(), engine_.snapshot(), checkpoint);
  store(engine_.layout(), engine_.buffers(), checkpoint);
  save_checkpoint(folder_->path(), checkpoint);
}

int64_t Trainer::samples_at(int64_t batch) const {
  return position_.epoch * samples() + std::min(batch * options_.batch, samples());
}

int64_t Trainer::rows_of(int64_t batch) const {
  return std::min(options_.batch, samples() - batch * options_.batch);
}

bool Trainer::reached_target() const {
  return options_.target_accuracy && !history_.empty() && history_.back().test_accuracy &&
         *history_.back().test_accuracy >= *options_.target_accuracy;
}

TrainResult Trainer::result(bool interrupted) const {
  TrainResult r;
  r.options = options_;
  r.history = history_;
  r.interrupted = interrupted;
  r.seconds = seconds_since(start_);
  r.waiting_seconds = position_.waiting_seconds;
  r.parameters = engine_.layout().trained();
  for (const EpochRecord& e : history_) {
    r.train_seconds += e.seconds;
    if (!e.test_accuracy) continue;
    r.final_test_accuracy = e.test_accuracy;
    r.final_test_loss = e.test_loss;
    r.best_test_accuracy = std::max(r.best_test_accuracy.value_or(0), *e.test_accuracy);
    const bool reached = options_.target_accuracy && *e.test_accuracy >= *options_.target_accuracy;
    if (reached && !r.epochs_to_target) {
      r.epochs_to_target = e.epoch;
      r.seconds_to_target = r.train_seconds;
    }
  }
  r.train_seconds += position_.seconds;
  if (r.train_seconds > 0)
    r.images_per_second = static_cast<double>(samples_seen()) / r.train_seconds;
  return r;
}

void Trainer::fail_not_finite(float loss, double lr) const {
  const std::string what = fmt::format("the loss became {} at step {} (epoch {})", loss,
                                       position_.step, position_.epoch + 1);
  if (position_.step == 1) {
    fail(
        "{}, before anything was learned: look for extreme values in the data, or in the first "
        "weights of the net",
        what);
  }
  const std::string kept = folder_ && folder_->has_checkpoint()
                               ? fmt::format("; {} keeps the checkpoint of epoch {}",
                                             folder_->path().string(), history_.size())
                               : "";
  fail("{}: the learning rate {} is probably too high; try --lr {:.1g} or --clip-norm 1{}", what,
       lr, *options_.lr / 10, kept);
}

}  // namespace crossbow
