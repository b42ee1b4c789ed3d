// What a person sees of a run while it runs.
#pragma once

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "core/error.h"
#include "train/observer.h"

namespace crossbow::cli {

/// The run was asked to end before it began.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// Of ranks the first one speaks, and the next if that is lost. Prints a line for each epoch. On a
/// terminal (which mpirun only seems to be), also a progress bar below them, drawn by a thread of
/// its own at most ten times a second; elsewhere, now and then a line on the progress of an epoch.
/// Ends the bar when destroyed.
class Reporter final : public Observer {
 public:
  /// Writes to `out`: standard output, or standard error where that belongs to JSON.
  explicit Reporter(std::FILE* out);
  ~Reporter() override;

  void note(std::string_view text) override;
  void loading(std::string_view what, int64_t done, int64_t total) override;
  void started(const TrainOptions& options, int64_t samples) override;
  void epoch_done(const EpochRecord& record) override;
  /// By a signal, or because standard output, where `out` is that, takes no more.
  bool stop_requested() override;

  /// Takes the bar away; what is printed afterwards stays.
  void finish();

 private:
  /// To be called by the training thread before the others ask.
  void look_who_speaks();
  /// `label` begins the line, and its width indents what does not fit on it.
  void print_line(std::string_view label, std::string_view line);
  void print_locked(std::string_view label, std::string_view line);
  void draw();
  void tell();
  std::string bar_text();
  double images_per_second();
  std::string time_left(double rate) const;
  std::string epoch_text(int64_t epoch) const;

  std::FILE* const out_;
  const bool bar_;                            // rather than lines
  std::atomic<bool> speaks_;                  // or is a rank that is silent
  std::atomic<bool> lost_{false};             // standard output failed
  std::mutex mutex_;                          // guards what is on the terminal, and all below
  std::set<std::string, std::less<>> notes_;  // so far
  bool started_ = false;
  std::string loading_;
  int64_t epochs_ = 0, samples_ = 0;
  int64_t last_done_ = 0;
  double last_time_ = 0, rate_ = 0;
  bool drawn_ = false, told_timing_ = false;
  double told_time_ = 0, told_epochs_ = 0;  // of the last line
  std::jthread drawer_;
};

}  // namespace crossbow::cli
