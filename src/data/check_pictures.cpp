#include "data/check_pictures.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "data/image.h"
#include "data/parallel.h"
#include "data/source.h"

namespace crossbow::data {

Checked check_samples(const Dataset& dataset, const OpenOptions& options) {
  Checked checked{.bad = dataset.bad};
  const auto check = [&](const Split& split) {
    std::mutex mutex;
    std::vector<std::pair<int64_t, std::string>> bad;
    parallel_for(split.size(), options, "checking", [&](int64_t i) {
      thread_local std::vector<uint8_t> file;
      try {
        const Sample sample = split.sample(i, &file);
        const auto* const picture = std::get_if<EncodedPicture>(&sample);
        if (picture) naming_sample(split, i, [&] { decode_image(picture->file); });
      } catch (const Error& e) {
        const std::lock_guard lock(mutex);
        bad.emplace_back(i, e.what());
      }
    });
    std::ranges::sort(bad);
    for (auto& [i, reason] : bad) checked.bad.push_back(std::move(reason));
    return split.size() - std::ssize(bad);
  };
  checked.train = check(*dataset.train);
  checked.test = check(*dataset.test);
  return checked;
}

}  // namespace crossbow::data
