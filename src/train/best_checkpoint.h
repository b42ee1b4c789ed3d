// The state with the best test of a run, kept beside its last one.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "train/record.h"

namespace crossbow {

/// `folder`/checkpoint.best: the checkpoint of the epoch with the best test, whole or not
/// at all at every moment. It is the file of that epoch's checkpoint under a second name, so that
/// it takes no time to write. One thread.
class BestCheckpoint {
 public:
  /// `resumed`: what the folder has kept already counts. A damaged file does not.
  BestCheckpoint(std::filesystem::path folder, bool resumed);

  /// Whether the run's last epoch is its best, and not what is kept.
  bool beaten_by(const std::vector<EpochRecord>& history) const;
  /// Keeps the folder's newest checkpoint, which is of the end of that epoch. Throws Error if it
  /// cannot be written.
  void keep(const EpochRecord& epoch);

  std::filesystem::path path() const { return folder_ / "checkpoint.best"; }
  /// The epoch that is kept; nothing if there is none yet.
  const std::optional<EpochRecord>& epoch() const { return epoch_; }

 private:
  const std::filesystem::path folder_;
  std::optional<EpochRecord> epoch_;
};

}  // namespace crossbow
