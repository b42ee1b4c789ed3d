#include "train/best_checkpoint.h"

#include <utility>

#include "core/error.h"
#include "train/checkpoint.h"

namespace crossbow {

namespace fs = std::filesystem;

BestCheckpoint::BestCheckpoint(fs::path folder, bool resumed) : folder_(std::move(folder)) {
  if (!resumed || !fs::exists(path())) return;
  try {
    const Checkpoint kept = load_checkpoint(path(), [](std::string_view) {});
    if (!kept.history.empty()) epoch_ = kept.history.back();
  } catch (const Error&) {
    epoch_.reset();  // the next good epoch replaces it
  }
}

bool BestCheckpoint::beaten_by(const EpochRecord& epoch) const {
  if (!epoch.test_accuracy) return false;
  return !epoch_ || *epoch.test_accuracy > epoch_->test_accuracy.value_or(-1);
}

void BestCheckpoint::keep(const EpochRecord& epoch) {
  const fs::path newest = folder_ / "checkpoint", next = folder_ / "checkpoint.best.next";
  std::error_code error;
  fs::remove(next, error);
  fs::create_hard_link(newest, next, error);
  if (error) fs::copy_file(newest, next, error);  // the file system knows no links
  if (!error) fs::rename(next, path(), error);
  if (error) {
    std::error_code ignored;
    fs::remove(next, ignored);
    fail("cannot write {} ({}): make room or choose another folder with --out", path().string(),
         error.message());
  }
  fs::remove(next, error);  // which a rename onto the same file leaves
  epoch_ = epoch;
}

}  // namespace crossbow
