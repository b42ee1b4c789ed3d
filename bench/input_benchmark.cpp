// Batches of 224 x 224 images from encoded pictures, cut at random, mirrored and normalised: the
// pipeline, and what libjpeg alone takes for the same parts. The set is that of $CROSSBOW_PICTURES,
// such as imagenet:DIR, and lies in the system's cache; rates are pictures a second.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <thread>

#include "core/error.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "data/picture.h"
#include "data/pipeline.h"

namespace crossbow::data {
namespace {

constexpr int64_t kBatch = 16, kPictures = 1024;
constexpr double kLeastArea = 0.08;

const Dataset& set() {
  static const std::shared_ptr<const Dataset> opened = [] {
    const char* const spec = std::getenv("CROSSBOW_PICTURES");
    if (!spec) fail("set CROSSBOW_PICTURES to a set of pictures, such as imagenet:DIR");
    return open_dataset(spec);
  }();
  return *opened;
}

PipelineOptions options_of(int64_t threads) {
  PipelineOptions options;
  options.batch = kBatch;
  options.shuffle = true;
  options.augment = {.least_area = kLeastArea, .mirror = true};
  options.threads = static_cast<int>(threads);
  return options;
}

void make_batches(benchmark::State& state) {
  Pipeline pipeline(set(), set().train, options_of(state.range(0)));
  const int64_t batches = std::min(kPictures / kBatch, pipeline.batches());
  int64_t epoch = 0;
  for (auto unused : state) {
    pipeline.start(epoch++);
    for (int64_t b = 0; b < batches; ++b) pipeline.release(pipeline.acquire(b));
  }
  state.SetItemsProcessed(state.iterations() * batches * kBatch);
}

/// Of an epoch that begins there, in a program that has yet to open the set.
void first_batch(benchmark::State& state) {
  const int64_t batch = state.range(0);
  for (auto unused : state) {
    Pipeline pipeline(set(), set().train, options_of(1));
    if (batch >= pipeline.batches()) fail("an epoch has {} batches only", pipeline.batches());
    pipeline.start(0, batch);
    pipeline.release(pipeline.acquire(batch));
  }
}

/// Of pictures in memory, JPEGs all: the parts' pixels, not scaled.
void decode_alone(benchmark::State& state) {
  const Split& split = *set().train;
  std::vector<std::vector<uint8_t>> files;
  for (int64_t i = 0; std::ssize(files) < kPictures && i < split.size(); ++i) {
    std::vector<uint8_t> scratch;
    const auto picture = std::get<EncodedPicture>(split.sample(i, &scratch)).file;
    if (is_jpeg(picture)) files.emplace_back(picture.begin(), picture.end());
  }
  const auto threads = static_cast<size_t>(state.range(0));
  uint32_t epoch = 0;
  for (auto unused : state) {
    std::vector<std::jthread> team;
    for (size_t t = 0; t < threads; ++t) {
      team.emplace_back([&, t] {
        JpegReader reader;
        for (size_t i = t; i < files.size(); i += threads) {
          Rng rng(1, Purpose::window, epoch, i);
          const Window w = random_window(reader.open(files[i]), kLeastArea, rng);
          reader.read({static_cast<int64_t>(w.top), static_cast<int64_t>(w.left),
                       static_cast<int64_t>(w.height), static_cast<int64_t>(w.width)},
                      1);
        }
      });
    }
    team.clear();
    ++epoch;
  }
  state.SetItemsProcessed(state.iterations() * std::ssize(files));
}

BENCHMARK(make_batches)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(decode_alone)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(first_batch)->Arg(0)->Arg(40000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace crossbow::data

BENCHMARK_MAIN();
