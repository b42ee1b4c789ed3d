#include "data/fetch/fetch.h"

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/fetch/sha256.h"
#include "data/fetch/unpack.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;

/// What is wrong with a file that is there; empty if it holds what it should.
std::string fault_of(const fs::path& path, const Digest& digest) {
  try {
    const std::vector<uint8_t> contents = read_file(path, static_cast<size_t>(digest.bytes));
    if (std::ssize(contents) != digest.bytes) {
      return fmt::format("it holds {} bytes instead of {}", grouped(std::ssize(contents)),
                         grouped(digest.bytes));
    }
    const std::string sum = sha256(contents);
    if (sum == digest.sha256) return "";
    return fmt::format("its contents' SHA-256 is {} instead of {}", sum, digest.sha256);
  } catch (const Error& e) {
    return e.what();
  }
}

/// Where what `download` gives is looked for: an archive that was unpacked by hand has made a
/// folder of its own.
fs::path place_of(const Download& download, const fs::path& folder) {
  std::vector<std::string> names;
  for (const SetFile& file : download.gives) {
    if (file.digest) names.push_back(file.name);
  }
  const bool is_apart = !download.archive_folder.empty() && !has_files(folder, names) &&
                        has_files(folder / download.archive_folder, names);
  return is_apart ? folder / download.archive_folder : folder;
}

struct FoundFile {
  const SetFile& file;
  fs::path path;
};

/// Those of `download` that are there.
std::vector<FoundFile> look(const Download& download, const fs::path& folder) {
  const fs::path place = place_of(download, folder);
  std::vector<FoundFile> found;
  for (const SetFile& file : download.gives) {
    const fs::path path = find_file(place, file.name);
    if (!path.empty()) found.push_back({file, path});
  }
  return found;
}

/// Whether none is missing. Throws Error if one is wrong.
bool is_there(const Download& download, const fs::path& folder) {
  const auto needed = [](const SetFile& file) { return file.digest.has_value(); };
  auto missing = std::ranges::count_if(download.gives, needed);
  for (const auto& [file, path] : look(download, folder)) {
    if (!file.digest) continue;
    const std::string fault = fault_of(path, *file.digest);
    if (!fault.empty()) {
      fail("{} is there, but is not the published file ({}): move it away, then fetch again",
           path.string(), fault);
    }
    --missing;
  }
  return missing == 0;
}

std::string joined(const std::string& mirror, const std::string& file) {
  return mirror + (mirror.ends_with('/') ? "" : "/") + file;
}

int64_t get(const Published& set, const Download& wanted, const fs::path& folder,
            const FetchOptions& options) {
  std::vector<std::string> urls;
  for (const std::string& mirror : set.mirrors) urls.push_back(joined(mirror, wanted.file));
  if (!options.from.empty()) urls = {joined(options.from, wanted.file)};
  const fs::path part = folder / (wanted.file + ".part");
  const int64_t bytes = download(urls, wanted.digest, part, options.patience, options.progress);
  if (wanted.archive_folder.empty()) {
    move_into_place(part, folder / wanted.file);
  } else {
    unpack(part, wanted, folder, options.progress);
  }
  return bytes;
}

}  // namespace

Fetched fetch(const Published& set, const fs::path& folder, const FetchOptions& options) {
  make_folder(folder);
  const auto lock = lock_folder(folder);
  if (!lock) fail("another process fetches into {}: wait until it has ended", folder.string());
  Fetched fetched;
  for (const Download& wanted : set.downloads) {
    if (!is_there(wanted, folder)) fetched.bytes += get(set, wanted, folder, options);
    std::error_code ignored;
    fs::remove(folder / (wanted.file + ".part"), ignored);  // an archive, once it is unpacked
    for (const FoundFile& found : look(wanted, folder)) fetched.files.push_back(found.path);
  }
  return fetched;
}

}  // namespace crossbow::data
