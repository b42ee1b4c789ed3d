#include "data/rating_set.h"

#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "data/held_out.h"
#include "data/ratings.h"
#include "data/text_pieces.h"

namespace crossbow::data {
namespace {

constexpr std::array<float, 2> kOnes{1, 1};

class RatingSplit final : public Split {
 public:
  explicit RatingSplit(RatedPairs pairs)
      : Split(std::move(pairs.ratings)), columns_(std::move(pairs.columns)) {}

  Sample sample(int64_t i, std::vector<uint8_t>*) const override {
    return SparseRow{columns_[static_cast<size_t>(i)], kOnes};
  }
  bool in_memory() const override { return true; }

 private:
  const std::vector<std::array<int32_t, 2>> columns_;
};

using Pieces = std::vector<std::vector<Rating>>;

/// The numbers by which a file names users or items, ascending: that at place i has the column i.
class Names {
 public:
  void add(const Pieces& pieces, int64_t Rating::*which) {
    for (const auto& piece : pieces) {
      std::vector<int64_t> found;
      std::ranges::transform(piece, std::back_inserter(found), which);
      sort_out(found);
      std::vector<int64_t> all;
      std::ranges::set_union(names_, found, std::back_inserter(all));
      names_ = std::move(all);
    }
  }
  int64_t size() const { return std::ssize(names_); }
  uint32_t checksum(uint32_t before) const {
    return static_cast<uint32_t>(crc32_z(before, reinterpret_cast<const uint8_t*>(names_.data()),
                                         names_.size() * sizeof(int64_t)));
  }
  int32_t column_of(int64_t name) const {
    return static_cast<int32_t>(std::ranges::lower_bound(names_, name) - names_.begin());
  }

 private:
  static void sort_out(std::vector<int64_t>& names) {
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }

  std::vector<int64_t> names_;
};

/// Takes the ratings over from the pieces, whose memory is given back one after the other. With
/// `held_out` those for the test go there.
void take(Pieces pieces, const Names& users, const Names& items, RatedPairs& pairs,
          RatedPairs* held_out) {
  int64_t all = 0;
  for (const auto& piece : pieces) all += std::ssize(piece);
  HeldOut test(all);
  pairs.columns.reserve(static_cast<size_t>(all));
  pairs.ratings.reserve(static_cast<size_t>(all));
  for (auto& piece : pieces) {
    const std::vector<Rating> taken = std::move(piece);
    for (const Rating& rating : taken) {
      RatedPairs& to = held_out && test.takes_next() ? *held_out : pairs;
      const auto first_item = static_cast<int32_t>(users.size());
      to.columns.push_back(
          {users.column_of(rating.user), first_item + items.column_of(rating.item)});
      to.ratings.push_back(rating.value);
    }
  }
}

Pieces read(const Path& path, const OpenOptions& options) {
  Pieces pieces = TextPieces<std::vector<Rating>>(path, parse_ratings).read(options);
  if (std::ranges::all_of(pieces, [](const auto& piece) { return piece.empty(); })) {
    fail("{} holds no ratings", path.string());
  }
  return pieces;
}

std::shared_ptr<const Dataset> open_ratings(const Path& path, const OpenOptions& options) {
  const Path test_path = test_file(path);
  Pieces pieces = read(path, options), test_pieces;
  if (!test_path.empty()) test_pieces = read(test_path, options);
  Names users, items;
  for (const Pieces* part : {&pieces, &test_pieces}) {
    users.add(*part, &Rating::user);
    items.add(*part, &Rating::item);
  }
  if (users.size() + items.size() > std::numeric_limits<int32_t>::max()) {
    fail("{} has {} users and {} items: more than can be held", path.string(),
         grouped(users.size()), grouped(items.size()));
  }
  RatedPairs train, test;
  take(std::move(pieces), users, items, train, test_path.empty() ? &test : nullptr);
  take(std::move(test_pieces), users, items, test, nullptr);
  std::string note = test_path.empty() ? HeldOut::note(path, std::ssize(test.ratings)) : "";
  auto set = rating_set("ratings", users.size(), items.size(), std::move(train), std::move(test),
                        std::move(note));
  set->info.group_names = items.checksum(users.checksum(0));
  return set;
}

}  // namespace

std::shared_ptr<Dataset> rating_set(const std::string& name, int64_t users, int64_t items,
                                    RatedPairs train, RatedPairs test, std::string note) {
  Info info{.name = name};
  info.image = {users + items};
  info.classes = 1;
  info.class_names = {"rating"};
  info.label = LabelKind::number;
  info.note = std::move(note);
  info.room = RowRoom::of_each(2);
  info.groups = {users, items};
  return std::make_shared<Dataset>(Dataset{std::move(info),
                                           std::make_shared<RatingSplit>(std::move(train)),
                                           std::make_shared<RatingSplit>(std::move(test))});
}

const Source& ratings_source() {
  static const Source source{
      .entry = {.name = "ratings",
                .about = "users' ratings of items: a line each, as MovieLens has them",
                .source = "get sets from grouplens.org/datasets/movielens",
                .files = {"FILE (gzip, bzip2 or plain)", "FILE.t with test ratings, or none"},
                .takes = "FILE",
                .rows = true},
      .open = open_ratings,
      .found = [](const Path&) { return true; }};  // opening says what is wrong with the file
  return source;
}

}  // namespace crossbow::data
