// Measured choices between implementations, remembered: within a run (so that a resumed one makes
// the same) and on disk (so that the next run starts at once).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/kernel.h"

namespace crossbow {

/// Keys are layers; values are the chosen implementation's name.
using Choices = std::map<std::string, std::string>;

/// Nothing if there is no such file. Throws Error, naming it, if it cannot be read or is not what
/// write_choices writes.
Choices read_choices(const std::filesystem::path& file);
/// Whole or not at all. Throws Error if it cannot be written.
void write_choices(const std::filesystem::path& file, const Choices& choices);

/// Thread-safe.
class Tuner : public AlgorithmChooser {
 public:
  /// Asked before each timing, which may take seconds, with the number of those before it. Once it
  /// answers true, what is not known is not timed: the first candidate is taken, and not
  /// remembered.
  using GiveUp = std::function<bool(int64_t timed)>;

  /// Reads what earlier processes found on this kind of processor from `file`, if it can be read;
  /// empty: remembers within this process only.
  explicit Tuner(
      std::filesystem::path file = default_file(), GiveUp give_up = [](int64_t) { return false; });
  /// Saves.
  ~Tuner() override;

  /// Writes new choices to the file. False if there are some and they cannot be written: the next
  /// process measures again.
  bool save();

  /// choices-<processor>.json in cache_folder(); empty without one.
  static std::filesystem::path default_file();

  size_t choose(const std::string& key, std::span<const std::string> candidates,
                const std::function<double(size_t)>& measure) override;

  /// A choice that others make between what only they can measure; nothing if it is not known.
  std::optional<std::string> recall(const std::string& key);
  void remember(const std::string& key, const std::string& choice);

  /// What was asked for or preset since this object was made: goes into a run's record.
  Choices choices() const;
  /// Choices that hold without measuring, before those of the file, and are not written to it: they
  /// may come from another machine.
  void preset(const Choices& choices);

 private:
  std::filesystem::path file_;
  const GiveUp give_up_;
  int64_t timed_ = 0;
  mutable std::mutex mutex_;
  Choices preset_, known_, used_;
  Choices found_;  // by this process: what the file lacks
};

}  // namespace crossbow
