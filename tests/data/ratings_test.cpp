#include "data/ratings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/files.h"

namespace crossbow::data {
namespace {

using Triplet = std::tuple<int64_t, int64_t, float>;

std::vector<Triplet> parse(std::string_view text, int64_t first_line = 1) {
  std::vector<Rating> ratings;
  parse_ratings(text, first_line, ratings);
  std::vector<Triplet> all;
  for (const Rating& r : ratings) all.emplace_back(r.user, r.item, r.value);
  return all;
}

TEST(Ratings, AreReadAsMovieLensHasThem) {
  const std::vector<Triplet> both{{196, 242, 3.0f}, {7, 4, 0.5f}};
  EXPECT_EQ(parse("196\t242\t3\t881250949\n7\t4\t0.5\t0\n"), both);
  EXPECT_EQ(parse("196::242::3::881250949\n7::4::.5::1"), both);
  EXPECT_EQ(parse("userId,movieId,rating,timestamp\n196,242,3.0,881250949\n7,4,0.5,1\n"), both);
  EXPECT_EQ(parse("  196 242  3 \r\n\n7 ;4; 5e-1;x\r\n"), both);
  EXPECT_EQ(parse("9223372036854775807 0 -1e3"),
            (std::vector<Triplet>{{9223372036854775807, 0, -1000.0f}}));
  EXPECT_TRUE(parse("user item rating\n").empty());
  EXPECT_EQ(parse("\xEF\xBB\xBF"
                  "1,2,3\n"),
            (std::vector<Triplet>{{1, 2, 3.0f}}));
  EXPECT_TRUE(parse("").empty());
}

TEST(Ratings, ErrorsNameLineAndReason) {
  const auto because = [](std::string_view text, std::string_view why) {
    EXPECT_ERROR(parse(text, 5), std::string(why));
  };
  because("userId,movieId,rating\n", "line 5: no user at 'userId,movieId,rating'");
  because("1 2 3\n1 2 \n", "line 6: no rating at ''");
  because("1 2", "line 5: no rating at ''");
  because("1 x 3", "no item at 'x 3'");
  because("1 2 good", "no rating at 'good'");
  because("1.5 2 3", "no user at '1.5 2 3'");
  because("1 2 3x", "no rating at 'x'");
  because("1 2 nan", "a rating is a number, and not nan");
  because("1 2 1e99", "no rating at '1e99'");
  because("-1 2 3", "user -1: users and items are whole numbers from 0 on");
  because("1 99999999999999999999 3", "no item at '99999999999999999999 3'");
}

class RatingSets : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> open(std::string_view text, int threads = 2) {
    std::ofstream(path_) << text;
    return open_dataset("ratings:" + path_.string(), {.threads = threads});
  }
  static std::vector<int32_t> columns(const Split& split, int64_t i) {
    const auto row = std::get<SparseRow>(split.sample(i, nullptr));
    EXPECT_TRUE(std::ranges::equal(row.values, std::vector<float>{1, 1}));
    return {row.columns.begin(), row.columns.end()};
  }
  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "set";
};

TEST_F(RatingSets, NumberUsersThenItems) {
  std::ofstream(folder_.path() / "set.t") << "12 5 1.5\n";
  const auto set = open("900 7 4\n3 7 2\n900 1000000 5\n");
  EXPECT_EQ(set->info.groups, (std::vector<int64_t>{3, 3}));  // 3, 12, 900 and 5, 7, 1000000
  EXPECT_EQ(set->info.image, Shape{6});
  EXPECT_EQ(set->info.label, LabelKind::number);
  EXPECT_EQ(set->info.room->of(10), 20);
  ASSERT_EQ(set->train->size(), 3);
  EXPECT_EQ(columns(*set->train, 0), (std::vector<int32_t>{2, 4}));
  EXPECT_EQ(columns(*set->train, 1), (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(columns(*set->train, 2), (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(set->train->number(2), 5);
  ASSERT_EQ(set->test->size(), 1);
  EXPECT_EQ(columns(*set->test, 0), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(set->test->number(0), 1.5f);
  EXPECT_EQ(set->info.note, "");
}

TEST_F(RatingSets, HoldOutATenth) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += fmt::format("{}::{}::{}\n", i, i % 7, i % 5);
  const auto set = open(text), again = open(text, 1);
  EXPECT_EQ(set->train->size() + set->test->size(), 2000);
  EXPECT_NEAR(static_cast<double>(set->test->size()), 200, 50);
  EXPECT_NE(set->info.note.find("there is no set.t"), std::string::npos);
  ASSERT_EQ(again->test->size(), set->test->size());
  for (int64_t i = 0; i < set->test->size(); ++i) {
    EXPECT_EQ(columns(*again->test, i), columns(*set->test, i));
  }
}

TEST_F(RatingSets, NameTheFile) {
  EXPECT_ERROR(open("1 2 3\n4 5\n"), path_.string() + ": line 2: no rating at ''");
  EXPECT_ERROR(open("user,item,rating\n"), path_.string() + " holds no ratings");
  EXPECT_ERROR(open("1 2 3\n"), "a single row");
}

}  // namespace
}  // namespace crossbow::data
