#include "cli/reporter.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <system_error>

#include "cli/command.h"
#include "cli/results.h"
#include "comm/world.h"
#include "core/error.h"
#include "train/interrupt.h"
#include "train/run_config.h"

namespace crossbow::cli {
namespace {

using Phase = Progress::Phase;

constexpr std::string_view kClearLine = "\r\033[K";

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::min(seconds, 3.6e6));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

/// `[=====>    ]` in what a line of that width leaves; nothing if that is too little to see.
std::string bar(double fraction, int width) {
  constexpr int kNarrowest = 10, kWidest = 40;
  if (width < kNarrowest) return "";
  const int inner = std::min(width, kWidest) - 2;
  const int full = std::clamp(static_cast<int>(fraction * inner), 0, inner);
  std::string text(static_cast<size_t>(full), '=');
  if (full < inner) text += '>';
  return fmt::format("[{:{}}]", text, inner);
}

/// Whether `out` shows a bar that is drawn over itself.
bool draws(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(out)) && kind && *kind && std::string_view(kind) != "dumb";
}

/// Epochs done, in parts of one.
double epochs_done(const Progress& progress) {
  const auto total = static_cast<double>(std::max<int64_t>(1, progress.total));
  return static_cast<double>(progress.epoch) + static_cast<double>(progress.done) / total;
}

std::string timing_text(const Progress& progress) {
  return fmt::format("choosing kernels, {} timed", progress.timed.load());
}

std::string schedule_text(const TrainOptions& o) {
  std::string text = *o.lr_schedule;
  if (o.lr_milestones && !o.lr_milestones->empty()) {
    const auto& at = *o.lr_milestones;
    constexpr size_t kShown = 4;
    text = fmt::format("times {} ", *o.lr_gamma);
    if (*o.lr_schedule == "step") {
      text += fmt::format("every {} epochs", at[0]);
    } else if (at.size() > kShown) {
      text += fmt::format("{} times from epoch {} to {}", at.size(), at.front(), at.back());
    } else {
      text += fmt::format("at epoch {}", fmt::join(at, ", "));
    }
  }
  if (*o.warmup > 0) text += fmt::format(" after a warm-up of {}", *o.warmup);
  return text;
}

/// What is not plain cross-entropy.
std::string loss_text(const TrainOptions& o) {
  if (o.loss != "cross-entropy") return "; loss " + *o.loss;
  const double smoothing = o.label_smoothing.value_or(0);
  return smoothing > 0 ? fmt::format("; label smoothing {}", smoothing) : "";
}

/// What the options, the algorithm's needs and the recipe have come to.
std::string solver_text(const TrainOptions& o) {
  return fmt::format("{} at rate {}, {}; momentum {}{}, weight decay {}{}{}", o.optimizer, *o.lr,
                     schedule_text(o), *o.momentum, *o.nesterov ? " (Nesterov)" : "",
                     *o.weight_decay, o.weight_decay_on == "weights" ? " of weights only" : "",
                     loss_text(o));
}

}  // namespace

Reporter::Reporter(std::FILE* out)
    : out_(out), bar_(draws(out) && !world()), speaks_(world_rank() == 0), told_time_(now()) {
  try {
    drawer_ = std::jthread([this](std::stop_token stop) {
      std::mutex mutex;
      std::condition_variable_any tick;
      std::unique_lock lock(mutex);
      while (!tick.wait_for(lock, stop, std::chrono::milliseconds(100), [] { return false; })) {
        if (stop.stop_requested()) return;
        try {
          if (!speaks_) continue;
          if (bar_) {
            draw();
          } else {
            tell();
          }
        } catch (const std::exception&) {
          // Short of memory: the training comes first.
        }
      }
    });
  } catch (const std::system_error&) {
    // The system allows no more threads: the lines of the epochs must do.
  }
}

Reporter::~Reporter() {
  finish();
}

void Reporter::finish() {
  if (!drawer_.joinable()) return;
  drawer_.request_stop();
  drawer_.join();
  if (drawn_) write(out_, kClearLine);
  std::fflush(out_);
}

void Reporter::look_who_speaks() {
  speaks_ = world_rank() == 0;
}

void Reporter::print_line(std::string_view label, std::string_view line) {
  const std::lock_guard lock(mutex_);
  print_locked(label, line);
}

void Reporter::print_locked(std::string_view label, std::string_view line) {
  if (!speaks_) return;
  if (drawn_) write(out_, kClearLine);
  drawn_ = false;
  put_wrapped(out_, label, printable(line));
  if ((std::fflush(out_) != 0 || std::ferror(out_)) && out_ == stdout) lost_ = true;
  told_time_ = now();
  told_epochs_ = epochs_done(progress);
}

void Reporter::note(std::string_view text) {
  look_who_speaks();
  if (speaks_ && !notes_.emplace(text).second && repeats) return;
  print_line(kNote, with_flags(text));
}

void Reporter::loading(std::string_view what, int64_t done, int64_t total) {
  look_who_speaks();
  if (speaks_ && !repeats && stop_requested())
    throw Interrupted("interrupted before the training began");
  const std::lock_guard lock(mutex_);
  loading_ = what;
  progress.done = done;
  progress.total = total;
}

void Reporter::started(const TrainOptions& o, int64_t samples) {
  look_who_speaks();
  {
    const std::lock_guard lock(mutex_);
    epochs_ = *o.epochs;
    samples_ = samples;
  }
  if (speaks_ && std::exchange(started_, true)) return;
  print_line("", fmt::format("{} on {}: {} images, {}, batch {}, {} on {} in {}", o.model, *o.data,
                             grouped(samples), count(*o.epochs, "epoch"), o.batch, o.sync, o.device,
                             precision_name(o)));
  print_line("", solver_text(o));
}

/// Short, so that it fits on a line of 80 columns.
void Reporter::epoch_done(const EpochRecord& r) {
  std::string line = fmt::format("loss {:.4f}", r.train_loss);
  if (r.test_loss) line += fmt::format(", test {:.4f}", *r.test_loss);
  if (r.test_accuracy) {
    line += fmt::format(", accuracy {}{}{}", percent(*r.test_accuracy), top5_text(r.test_top5),
                        auc_text(r.test_auc));
  }
  if (r.test_rmse) line += fmt::format(", {}", rmse_text(*r.test_rmse));
  print_line(epoch_text(r.epoch),
             line + fmt::format(", {:.{}f} s, {} images/s", r.seconds, r.seconds < 10 ? 1 : 0,
                                grouped(std::llround(r.images_per_second))));
}

bool Reporter::stop_requested() {
  return InterruptGuard::requested() || lost_;
}

/// Smoothed over some ten changes of progress, which may be further apart than two drawings.
double Reporter::images_per_second() {
  const int64_t done = progress.epoch * samples_ + progress.done;
  if (done == last_done_) return rate_;
  const double time = now(), elapsed = time - last_time_;
  if (last_time_ > 0 && done > last_done_) {
    const double rate = static_cast<double>(done - last_done_) / elapsed;
    rate_ = rate_ > 0 ? rate_ + (rate - rate_) * 0.1 : rate;
  }
  last_time_ = time;
  last_done_ = done;
  return rate_;
}

std::string Reporter::epoch_text(int64_t epoch) const {
  return fmt::format("epoch {}/{}: ", epoch, epochs_);
}

std::string Reporter::time_left(double rate) const {
  const int64_t left = (epochs_ - progress.epoch) * samples_ - progress.done;
  return clock_text(static_cast<double>(left) / rate);
}

std::string Reporter::bar_text() {
  const auto width = columns(out_) - 1;
  const int64_t done = progress.done, total = std::max<int64_t>(1, progress.total);
  const double fraction = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  std::string before, after = fmt::format(" {:3.0f} %", fraction * 100);
  switch (progress.phase.load()) {
    case Phase::preparing:
      before = loading_.empty() ? "preparing " : loading_ + ' ';
      break;
    case Phase::timing_kernels:
      return timing_text(progress).substr(0, width);
    case Phase::evaluating:
      before = fmt::format("epoch {}/{} evaluating ", progress.epoch + 1, epochs_);
      last_time_ = 0;  // this time is not of training
      break;
    case Phase::training: {
      before = fmt::format("epoch {}/{} ", progress.epoch + 1, epochs_);
      const double rate = images_per_second();
      if (!std::isnan(progress.loss)) after += fmt::format("  loss {:.4f}", progress.loss.load());
      if (rate > 0) {
        after += fmt::format("  {} images/s  ETA {}", grouped(std::llround(rate)), time_left(rate));
      }
    }
  }
  const auto left = static_cast<int>(width) - static_cast<int>(before.size() + after.size());
  return (before + bar(fraction, left) + after).substr(0, width);
}

void Reporter::draw() {
  const std::lock_guard lock(mutex_);
  put(out_, "\r{}\033[K", printable(bar_text()));
  if ((std::fflush(out_) != 0 || std::ferror(out_)) && out_ == stdout) lost_ = true;
  drawn_ = true;
}

/// A tenth of an epoch apart, but no more often than every ten seconds and no less than every
/// minute. That kernels are timed, which nobody expects, is told after a second.
void Reporter::tell() {
  constexpr double kAtOnce = 1, kSoonest = 10, kLatest = 60, kShare = 0.1;
  const std::lock_guard lock(mutex_);
  const Phase phase = progress.phase;
  const double done = epochs_done(progress), waited = now() - told_time_;
  const double share = std::min(1.0, done - static_cast<double>(progress.epoch));
  if (phase == Phase::preparing && waited >= kSoonest && done != told_epochs_) {
    print_locked("", fmt::format("{}: {:.0f} %", loading_, 100 * share));
  }
  if (phase == Phase::timing_kernels && waited >= (told_timing_ ? kSoonest : kAtOnce)) {
    told_timing_ = true;
    print_locked("", timing_text(progress));
  }
  if (phase == Phase::evaluating) last_time_ = 0;  // this time is not of training
  if (phase != Phase::training) return;
  const double rate = images_per_second();
  const bool far = std::abs(done - told_epochs_) >= kShare;
  if (waited < kSoonest || (!far && waited < kLatest) || rate <= 0) return;
  print_locked(epoch_text(progress.epoch + 1),
               fmt::format("{:.0f} %, loss {:.4f}, {} images/s, ETA {}", 100 * share,
                           progress.loss.load(), grouped(std::llround(rate)), time_left(rate)));
}

}  // namespace crossbow::cli
