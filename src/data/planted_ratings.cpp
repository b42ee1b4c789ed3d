// A set of the shape of MovieLens 100K (Harper & Konstan 2015), for trials where that is not at
// hand. Its ratings are drawn by a factorisation, the planted one, and noise, whose loss is told.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "core/rng.h"
#include "data/parallel.h"
#include "data/rating_set.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

constexpr const char* kName = "like-movielens";
constexpr int64_t kUsers = 943, kItems = 1682, kTrain = 90000, kTest = 10000;
constexpr size_t kRank = 8;

/// Streams of random numbers.
enum Stream : uint32_t { train_pairs, test_pairs, users, items };

/// What a user or an item adds to its ratings.
struct Taste {
  float bias;
  std::array<float, kRank> factors;
};

Taste draw_taste(Stream stream, int32_t i, float bias_scale) {
  constexpr float kProduct = 0.4f;  // standard deviation of the products of factors
  Rng rng(0, Purpose::synthetic, stream, static_cast<uint64_t>(i));
  Taste taste{bias_scale * rng.gaussian(), {}};
  const float scale = std::sqrt(kProduct / std::sqrt(static_cast<float>(kRank)));
  for (float& f : taste.factors) f = scale * rng.gaussian();
  return taste;
}

struct Part {
  RatedPairs pairs;
  double loss = 0;  // of the planted model
};

Part draw_part(Stream stream, int64_t n, const OpenOptions& options) {
  constexpr float kMean = 3.5f, kUserBias = 0.45f, kItemBias = 0.55f, kNoise = 0.85f;
  Part part;
  part.pairs.columns.resize(static_cast<size_t>(n));
  part.pairs.ratings.resize(static_cast<size_t>(n));
  std::vector<float> noise(static_cast<size_t>(n));
  parallel_for(n, options, fmt::format("drawing {}", kName), [&](int64_t i) {
    Rng rng(0, Purpose::synthetic, stream, static_cast<uint64_t>(i));
    const auto draw_of = [&](int64_t count) {  // small numbers are the likeliest
      const float u = rng.uniform();
      return static_cast<int32_t>(u * u * static_cast<float>(count));
    };
    const int32_t u = draw_of(kUsers), m = draw_of(kItems);
    const Taste user = draw_taste(users, u, kUserBias), item = draw_taste(items, m, kItemBias);
    const auto at = static_cast<size_t>(i);
    noise[at] = kNoise * rng.gaussian();
    part.pairs.columns[at] = {u, static_cast<int32_t>(kUsers) + m};
    part.pairs.ratings[at] =
        std::inner_product(user.factors.begin(), user.factors.end(), item.factors.begin(),
                           kMean + user.bias + item.bias + noise[at]);
  });
  for (const float x : noise) part.loss += double{x} * x / static_cast<double>(n);
  return part;
}

std::shared_ptr<const Dataset> open_planted(const Path&, const OpenOptions& options) {
  Part train = draw_part(train_pairs, kTrain, options);
  Part test = draw_part(test_pairs, kTest, options);
  return rating_set(kName, kUsers, kItems, std::move(train.pairs), std::move(test.pairs),
                    fmt::format("the model that drew the ratings of {} has a loss of {:.4f}, and "
                                "of {:.4f} on the test ratings",
                                kName, train.loss, test.loss));
}

}  // namespace

const Source& planted_ratings_source() {
  static const Source source{
      .entry = {.name = kName,
                .about = "ratings of MovieLens 100K's shape, drawn by the program",
                .image = {kUsers + kItems},
                .classes = 1,
                .train = kTrain,
                .test = kTest,
                .rows = true},
      .open = open_planted,
      .found = [](const Path&) { return true; }};
  return source;
}

}  // namespace crossbow::data
