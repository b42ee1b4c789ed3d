#include "train/survivors.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "comm/world.h"
#include "core/error.h"
#include "core/text.h"
#include "train/cluster.h"
#include "train/notes.h"
#include "train/recipe.h"
#include "train/run_config.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

/// Refuses what cannot be run, and says what will be done otherwise than asked.
RunConfig config_of(const TrainOptions& options, const Recipe& recipe, Observer& observer) {
  const RunConfig config = resolve(options, recipe);
  if (const auto note = precision_note(config)) observer.note(*note);
  if (const auto note = device_note(config)) observer.note(*note);
  if (const auto note = patience_note(config)) observer.note(*note);
  return config;
}

bool survives() {
  return world() && world()->survives();
}
bool is_spare() {
  return world() && world()->is_spare();
}

/// Of `path`, `path`-2, …: the first folder that this run can begin.
std::unique_ptr<RunFolder> begin_beside(const fs::path& path) {
  fs::path free = path;
  std::error_code error;
  for (int n = 2; fs::exists(free, error); ++n) free = fmt::format("{}-{}", path.string(), n);
  return std::unique_ptr<RunFolder>(new RunFolder(RunFolder::begin(free)));
}

/// Whether a checkpoint is one of the run that had come to that state.
bool is_of_same_run(const Checkpoint& before, const Checkpoint& state) {
  if (before.history.size() > state.history.size()) return false;
  const auto is_same = [](const EpochRecord& a, const EpochRecord& b) {  // all ranks have one loss
    return a.train_loss == b.train_loss;
  };
  return before.samples == state.samples && before.options.model == state.options.model &&
         before.options.seed == state.options.seed &&
         std::equal(before.history.begin(), before.history.end(), state.history.begin(), is_same);
}

/// Of the new rank 0, after the loss of the one that had the folder: takes it, if it is to be had
/// here, with metrics up to its checkpoint.
std::unique_ptr<RunFolder> inherit(const fs::path& path, const Checkpoint* from, int64_t& epochs,
                                   Observer& observer) {
  const auto warn = [&](std::string_view text) { observer.note(text); };
  try {
    constexpr std::chrono::seconds kPatience{5};  // until its owner is gone
    std::unique_ptr<RunFolder> folder(new RunFolder(RunFolder::go_on(path, kPatience)));
    const Checkpoint before = folder->load(warn);
    if (from && is_of_same_run(before, *from)) {
      folder->open_records(warn);
      epochs = std::ssize(before.history);
      return folder;
    }
  } catch (const Error&) {
    // It is on another machine, or its owner still has it.
  }
  std::unique_ptr<RunFolder> folder = begin_beside(path);
  warn(fmt::format("the run goes on in {}, as the folder that it had is not to be had here",
                   folder->path().string()));
  return folder;
}

/// By all ranks that are left: how many samples of the segment under way they train on again. All
/// go on from the furthest, so whoever is a segment behind repeats nothing of that.
int64_t samples_to_repeat(std::optional<Trainer>& trainer, const Checkpoint* own) {
  struct Segment {
    int64_t epoch = -1, batch = 0, samples = 0;
    std::pair<int64_t, int64_t> place() const { return {epoch, batch}; }
  };
  Segment mine;
  if (own) mine = {own->position.epoch, own->position.batch, trainer->samples_to_repeat()};
  const std::vector<Segment> all = of_all_ranks(mine);
  const auto furthest = std::ranges::max(all, {}, &Segment::place).place();
  int64_t samples = 0;
  for (const Segment& of : all) samples += of.place() == furthest ? of.samples : 0;
  return samples;
}

/// Who was lost in a run so far.
class Losses {
 public:
  explicit Losses(Observer& observer) : observer_(observer) {}

  /// By all that are left: what trainers have come to, or else what they began with. It is for all
  /// of them that train from now on, and for spares that do.
  std::optional<Checkpoint> recover(std::optional<Trainer>& trainer, const Checkpoint* from) {
    noticed_ = Clock::now();
    for (;;) {
      try {
        using Role = World::Role;
        for (const LostRank& rank : world()->recover(trainer ? Role::rank : Role::spare)) {
          observer_.note(fmt::format("rank {} on {} is lost", rank.rank, rank.host));
          all_.push_back({rank.rank, rank.host, 1, seconds(noticed_ - begin_), 0, 0});
        }
        if (world()->is_done()) return {};
        std::optional<Checkpoint> own;
        if (trainer) own = trainer->salvage();
        world()->take_in_spares();
        if (world()->is_spare()) return {};
        const int64_t repeated = samples_to_repeat(trainer, own ? &*own : nullptr);
        auto state = state_of_survivors(own ? &*own : from);
        repeated_ += repeated;
        return state;
      } catch (const RankLost&) {
        // One more.
      }
    }
  }
  /// With those that are left, from a state or from the beginning.
  void go_on(const Checkpoint* from) {
    const double pause = seconds(Clock::now() - noticed_);
    if (told_ == all_.size()) return;
    for (; told_ < all_.size(); ++told_) {
      all_[told_].pause = pause;
      all_[told_].repeated_samples = repeated_;
      if (from) all_[told_].epoch = from->position.epoch + 1;
    }
    repeated_ = 0;
    const int ranks = world_size();
    observer_.note(fmt::format("{} {} on after {:.2f} s{}", count(ranks, "rank"),
                               ranks == 1 ? "goes" : "go", pause,
                               from ? fmt::format(", from step {} in epoch {}", from->position.step,
                                                  from->position.epoch + 1)
                                    : ""));
  }

  const std::vector<RankLoss>& all() const { return all_; }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

  Observer& observer_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point noticed_;
  int64_t repeated_ = 0;  // samples, because of losses since the others went on
  std::vector<RankLoss> all_;
  size_t told_ = 0;  // whose pause is known
};

/// To the metrics, those that another rank was ahead by when it was lost or this one was not.
void add_epochs(const std::vector<EpochRecord>& history, int64_t& known, RunFolder* folder,
                Observer& observer) {
  for (; known < std::ssize(history); ++known) {
    const EpochRecord& record = history[static_cast<size_t>(known)];
    if (folder && !folder->is_new()) folder->metrics().epoch(record, {}, {});
    observer.epoch_done(record);
  }
}

void expect_enough_ranks(int64_t least) {
  if (world_size() >= least) return;
  const std::string few = fmt::format("only {} left, where at least {} are to go on",
                                      count(world_size(), "rank"), least);
  if (world()->prevails()) fail("{}; go on from the last checkpoint by `resume`", few);
  fail(
      "{} does not hear of the others any more: {}; they may go on without it, or else `resume` "
      "goes on from the last checkpoint",
      world()->host(world_rank()), few);
}

}  // namespace

TrainResult train_while_ranks_last(const GraphFunction& graph, TrainOptions options,
                                   const Recipe& recipe, RunFolder* folder,
                                   std::optional<Checkpoint> from, Throughput& throughput,
                                   Observer& observer) {
  Losses losses(observer);
  std::unique_ptr<RunFolder> inherited;
  std::string path = folder ? folder->path().string() : "";
  int64_t epochs = from ? std::ssize(from->history) : 0;  // in the folder's metrics
  bool knows_nothing = is_spare();
  for (;; observer.repeats = true) {
    std::optional<Trainer> trainer;
    if (!is_spare()) {
      if (knows_nothing && world_rank() == 0) {
        fail("all ranks that trained are lost; go on from the last checkpoint by `resume`");
      }
      try {
        path = agreed(path);
        options.keep_best = agreed(options.keep_best);
        if (world_rank() == 0 && !folder && !path.empty()) {
          inherited = inherit(path, from ? &*from : nullptr, epochs, observer);
          folder = inherited.get();
          options.out = path = folder->path().string();
        }
        TrainOptions own = options;
        own.keep_best = own.keep_best && folder;
        const RunConfig config = config_of(own, recipe, observer);
        trainer.emplace(graph, config, folder, from ? &*from : nullptr, throughput, observer);
        knows_nothing = false;
        observer.repeats = false;
        losses.go_on(from ? &*from : nullptr);
        if (from) add_epochs(from->history, epochs, folder, observer);
        if (!survives()) from.reset();  // the trainer has its own copy of the state
        TrainResult result = trainer->run();
        if (world()) world()->agree();  // that all have come to their ends
        result.lost_ranks = losses.all();
        return result;
      } catch (const RankLost&) {
        if (!survives()) throw;
      }
    } else if (!world()->await_loss()) {
      return {};
    }
    if (trainer) epochs = trainer->epochs();
    if (auto state = losses.recover(trainer, from ? &*from : nullptr)) from = std::move(state);
    if (world()->is_done()) return {};
    if (!is_spare()) expect_enough_ranks(options.min_ranks);
  }
}

}  // namespace crossbow
