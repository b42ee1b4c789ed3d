#include "data/check_pictures.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "data/image.h"
#include "data/parallel.h"
#include "data/source.h"

namespace crossbow::data {

std::vector<std::string> check_samples(const Dataset& dataset, const OpenOptions& options) {
  std::vector<std::string> all = dataset.bad;
  for (const Split* split : {dataset.train.get(), dataset.test.get()}) {
    std::mutex mutex;
    std::vector<std::pair<int64_t, std::string>> bad;
    parallel_for(split->size(), options, "checking", [&](int64_t i) {
      thread_local std::vector<uint8_t> file;
      try {
        const Sample sample = split->sample(i, &file);
        const auto* const picture = std::get_if<EncodedPicture>(&sample);
        if (picture) naming_sample(*split, i, [&] { decode_image(picture->file); });
      } catch (const Error& e) {
        const std::lock_guard lock(mutex);
        bad.emplace_back(i, e.what());
      }
    });
    std::ranges::sort(bad);
    for (auto& [i, reason] : bad) all.push_back(std::move(reason));
  }
  return all;
}

}  // namespace crossbow::data
