#include "train/survivors.h"

#include <algorithm>
#include <filesystem>

#include "comm/world.h"
#include "core/error.h"
#include "core/text.h"
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

/// Of the rank that has lost its number 0. Its metrics are those up to the checkpoint that is
/// there, and the epochs since.
std::unique_ptr<RunFolder> inherit(const fs::path& path, TrainOptions& options,
                                   const std::vector<EpochRecord>& history, Observer& observer) {
  options.out = path.string();
  std::error_code error;
  if (!fs::exists(path / "checkpoint", error)) {
    observer.note(fmt::format("{} was on another machine: a folder of this name is begun here",
                              path.string()));
    return std::unique_ptr<RunFolder>(new RunFolder(RunFolder::begin(path)));
  }
  constexpr std::chrono::seconds kPatience{5};  // until its owner is gone
  std::unique_ptr<RunFolder> folder(new RunFolder(RunFolder::go_on(path, kPatience)));
  const auto warn = [&](std::string_view text) { observer.note(text); };
  const Checkpoint before = folder->load(warn);
  options.keep_best = before.options.keep_best;
  folder->open_records(before.options, warn);
  for (size_t e = before.history.size(); e < history.size(); ++e) {
    folder->metrics().epoch(history[e], {}, {});
  }
  return folder;
}

/// Who was lost in a run so far.
class Losses {
 public:
  explicit Losses(Observer& observer) : observer_(observer) {}

  /// By all ranks that are left: what their trainers had come to; nothing if one of them has no
  /// trainer, so that all are to begin again where they last began.
  std::optional<Checkpoint> recover(std::optional<Trainer>& trainer) {
    noticed_ = Clock::now();
    for (;;) {
      try {
        for (const LostRank& rank : world()->recover()) {
          observer_.note(fmt::format("rank {} on {} is lost", rank.rank, rank.host));
          all_.push_back({rank.rank, rank.host, 1, seconds(noticed_ - begin_), 0});
        }
        const auto have = of_all_ranks(static_cast<char>(trainer.has_value()));
        const bool all_have = std::ranges::find(have, '\0') == have.end();
        return all_have ? std::optional(trainer->salvage()) : std::nullopt;
      } catch (const RankLost&) {
        // One more.
      }
    }
  }
  /// With those that are left, from a state or from the beginning.
  void go_on(const Checkpoint* from) {
    const double pause = seconds(Clock::now() - noticed_);
    for (; told_ < all_.size(); ++told_) {
      all_[told_].pause = pause;
      if (from) all_[told_].epoch = from->position.epoch + 1;
    }
  }

  const std::vector<RankLoss>& all() const { return all_; }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

  Observer& observer_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point noticed_;
  std::vector<RankLoss> all_;
  size_t told_ = 0;  // whose pause is known
};

void expect_enough_ranks(int64_t least) {
  if (world_size() >= least) return;
  fail("only {} left, where `min-ranks` is {}; go on from the last checkpoint by `resume`",
       count(world_size(), "rank"), least);
}

}  // namespace

TrainResult train_while_ranks_last(const GraphFunction& graph, TrainOptions options,
                                   const Recipe& recipe, RunFolder* folder,
                                   std::optional<Checkpoint> from, Throughput& throughput,
                                   Observer& observer) {
  const std::string path = agreed(folder ? folder->path().string() : std::string());
  std::unique_ptr<RunFolder> inherited;
  Losses losses(observer);
  for (;;) {
    std::optional<Trainer> trainer;
    try {
      const RunConfig config = config_of(options, recipe, observer);
      trainer.emplace(graph, config, folder, from ? &*from : nullptr, throughput, observer);
      losses.go_on(from ? &*from : nullptr);
      if (!survives()) from.reset();  // the trainer has its own copy of the state
      TrainResult result = trainer->run();
      result.lost_ranks = losses.all();
      return result;
    } catch (const RankLost&) {
      if (!survives()) throw;
    }
    if (auto state = losses.recover(trainer)) from = std::move(state);
    trainer.reset();
    expect_enough_ranks(options.min_ranks);
    if (world_rank() == 0 && !folder && !path.empty()) {
      inherited = inherit(path, options, from ? from->history : std::vector<EpochRecord>(), observer);
      folder = inherited.get();
    }
    if (from) {
      const int ranks = world_size();
      observer.note(fmt::format("{} {} on from step {}, in epoch {}", count(ranks, "rank"),
                                ranks == 1 ? "goes" : "go", from->position.step,
                                from->position.epoch + 1));
    }
  }
}

}  // namespace crossbow
