#include <algorithm>
#include <cmath>

#include "data/files.h"

namespace crossbow::data {
namespace {

std::vector<CatalogueEntry> planted_entries() {
  std::vector<CatalogueEntry> entries = catalogue();
  std::erase_if(entries, [](const CatalogueEntry& e) { return !e.name.starts_with("like-"); });
  return entries;
}

TEST(PlantedSets, HaveTheShapesThatTheCatalogueTells) {
  EXPECT_EQ(planted_entries().size(), 5u);
  for (const CatalogueEntry& e : planted_entries()) {
    if (e.name == "like-covtype") continue;  // large
    const auto set = open_dataset(e.name);
    EXPECT_EQ(set->info.image, e.image) << e.name;
    EXPECT_EQ(set->info.classes, e.classes) << e.name;
    EXPECT_EQ(set->train->size(), e.train) << e.name;
    EXPECT_EQ(set->test->size(), e.test) << e.name;
    EXPECT_EQ(set->info.label == LabelKind::class_set, e.name == "like-delicious");
    EXPECT_NE(set->info.note.find("has a loss of"), std::string::npos) << e.name;
    std::vector<bool> seen(static_cast<size_t>(e.classes));
    for (int64_t i = 0; i < e.test; ++i) {
      const auto row = std::get<SparseRow>(set->test->sample(i, nullptr));
      ASSERT_EQ(row.columns.size(), row.values.size());
      ASSERT_GT(row.columns.size(), 0u);
      ASSERT_GE(row.columns.front(), 0);
      ASSERT_LT(row.columns.back(), e.image[0]);
      ASSERT_EQ(std::ranges::adjacent_find(row.columns, std::ranges::greater_equal{}),
                row.columns.end());
      if (set->info.label == LabelKind::number) {
        ASSERT_TRUE(std::isfinite(set->test->number(i)));
        continue;
      }
      for (const int32_t label : set->test->label_set(i))
        seen.at(static_cast<size_t>(label)) = true;
    }
    if (set->info.label == LabelKind::number) continue;
    EXPECT_GT(std::count(seen.begin(), seen.end(), true), e.classes * 9 / 10) << e.name;
  }
}

TEST(PlantedSets, AreTheSameEachTime) {
  const auto a = open_dataset("like-w8a", {.threads = 1});
  const auto b = open_dataset("like-w8a", {.threads = 3});
  EXPECT_EQ(a->info.note, b->info.note);
  for (int64_t i = 0; i < a->train->size(); ++i) {
    const auto x = std::get<SparseRow>(a->train->sample(i, nullptr));
    const auto y = std::get<SparseRow>(b->train->sample(i, nullptr));
    ASSERT_TRUE(std::ranges::equal(x.columns, y.columns));
    ASSERT_TRUE(std::ranges::equal(x.values, y.values));
    ASSERT_EQ(a->train->label(i), b->train->label(i));
  }
}

}  // namespace
}  // namespace crossbow::data
