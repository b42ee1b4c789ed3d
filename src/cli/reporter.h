// What a person sees of a run while it runs.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "train/observer.h"

namespace crossbow::cli {

/// Prints a line for each epoch; on a terminal, also a progress bar below them, drawn by a thread
/// of its own at most ten times a second. Ends the bar when destroyed.
class Reporter final : public Observer {
 public:
  /// Writes to `out`: standard output, or standard error where that belongs to JSON.
  explicit Reporter(std::FILE* out);
  ~Reporter() override;

  void note(std::string_view text) override;
  void loading(std::string_view what, int64_t done, int64_t total) override;
  void started(const TrainOptions& options, int64_t samples) override;
  void epoch_done(const EpochRecord& record) override;
  bool stop_requested() override;

  /// Takes the bar away; what is printed afterwards stays.
  void finish();

 private:
  void print_line(const std::string& line);
  void draw();
  std::string bar_text();
  double images_per_second();

  std::FILE* const out_;
  std::mutex mutex_;  // guards what is on the terminal, and all below
  std::string loading_;
  int64_t epochs_ = 0, samples_ = 0;
  int64_t last_done_ = 0;
  double last_time_ = 0, rate_ = 0;
  bool drawn_ = false;
  std::jthread drawer_;
};

}  // namespace crossbow::cli
