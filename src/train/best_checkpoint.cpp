#include "train/best_checkpoint.h"

#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "train/checkpoint.h"

namespace crossbow {

namespace fs = std::filesystem;

BestCheckpoint::BestCheckpoint(fs::path folder, bool resumed) : folder_(std::move(folder)) {
  if (!resumed || type_of(path()) == fs::file_type::not_found) return;
  try {
    const Checkpoint kept = load_checkpoint(path(), [](std::string_view) {});
    if (!kept.history.empty() && kept.history.back().test_loss) epoch_ = kept.history.back();
  } catch (const Error&) {
    // It stays until an epoch is the best of all.
  }
}

bool BestCheckpoint::beaten_by(const std::vector<EpochRecord>& history) const {
  const EpochRecord* const best = best_of(history);
  if (!best || best != &history.back()) return false;
  return !epoch_ || epoch_->epoch != best->epoch;
}

void BestCheckpoint::keep(const EpochRecord& epoch) {
  const fs::path newest = folder_ / "checkpoint", next = folder_ / "checkpoint.best.next";
  std::error_code error;
  fs::remove(next, error);
  link_or_copy(newest, next);
  fs::rename(next, path(), error);
  if (error) {
    std::error_code ignored;
    fs::remove(next, ignored);
    fail("cannot write {} ({})", path().string(), error.message());
  }
  fs::remove(next, error);  // which a rename onto the same file leaves
  epoch_ = epoch;
}

}  // namespace crossbow
