#include "data/held_out.h"

#include "core/error.h"
#include "core/file.h"
#include "core/rng.h"
#include "core/text.h"

namespace crossbow::data {
namespace {

Path unpacked(const Path& path) {
  return is_packed(path) ? Path(path).replace_extension() : path;
}

}  // namespace

bool is_packed(const Path& path) {
  return path.extension() == ".gz" || path.extension() == ".bz2";
}

Path test_file(const Path& path) {
  const Path plain = unpacked(path);
  for (const char* suffix : {".t", ".t.gz", ".t.bz2"}) {
    Path found = plain;
    found += suffix;
    if (type_of(found) != std::filesystem::file_type::not_found) return found;
  }
  return {};
}

bool HeldOut::takes_next() {
  const int64_t row = next_++;
  const bool drawn = Rng(0, Purpose::test_rows, 0, static_cast<uint64_t>(row)).below(10) == 0;
  const bool is = row > 0 && (drawn || (row == rows_ - 1 && taken_ == 0));
  taken_ += is ? 1 : 0;
  return is;
}

std::string HeldOut::note(const Path& path, int64_t rows) {
  if (rows == 0) fail("{} has a single row: there is none to test on", path.string());
  return fmt::format(
      "there is no {}.t, so {} rows of {}, a tenth, are the test set, the same in each run",
      unpacked(path).filename().string(), grouped(rows), path.filename().string());
}

}  // namespace crossbow::data
