#include <algorithm>

#include "data/digits.h"

#include "data/dataset.h"
#include "data/files.h"

namespace crossbow::data {
namespace {

uint32_t checksum(const Split& split) {
  uLong crc = 0;
  for (int64_t i = 0; i < split.size(); ++i) {
    const auto label = static_cast<uint8_t>(split.label(i));
    crc = crc32(crc, &label, 1);
    crc = crc32(crc, pixels_of(split, i), kDigitPixels);
  }
  return static_cast<uint32_t>(crc);
}

// Whoever changes the drawing changes these, and the number in the cache's name.
constexpr uint32_t kTrainChecksum = 0xE2A08072;
constexpr uint32_t kTestChecksum = 0x0FD8D459;

class Digits : public ::testing::Test {
 protected:
  std::filesystem::path cached() const { return folder_.path() / "crossbow" / "digits-1.bin"; }
  TemporaryFolder folder_;
  ScopedVariable cache_{"XDG_CACHE_HOME", folder_.path().c_str()};
};

TEST_F(Digits, AreTheSameOnEveryMachineAndKeptInTheCache) {
  const auto drawn = open_dataset("digits");
  EXPECT_EQ(drawn->info.image, (Shape{1, 28, 28}));
  ASSERT_EQ(drawn->train->size(), 60000);
  ASSERT_EQ(drawn->test->size(), 10000);
  EXPECT_EQ(checksum(*drawn->train), kTrainChecksum);
  EXPECT_EQ(checksum(*drawn->test), kTestChecksum);

  const auto written = std::filesystem::last_write_time(cached());
  bool drew = false;
  const auto loaded = open_dataset(
      "digits", {.progress = [&](std::string_view, int64_t, int64_t) { drew = true; }});
  EXPECT_FALSE(drew);
  EXPECT_EQ(std::filesystem::last_write_time(cached()), written);
  EXPECT_EQ(checksum(*loaded->test), kTestChecksum);
}

TEST_F(Digits, AreDrawnAgainWhenTheCacheIsDamaged) {
  FileBytes damaged(24 + 70000 * (1 + kDigitPixels));
  const std::string magic = "crossbow digits v01\n";
  std::copy(magic.begin(), magic.end(), damaged.begin());
  write_file(cached(), damaged);
  EXPECT_EQ(checksum(*open_dataset("digits")->test), kTestChecksum);
  std::ifstream repaired(cached(), std::ios::binary);
  repaired.seekg(21);
  EXPECT_NE(repaired.get(), 0);  // a byte of the checksum
}

TEST_F(Digits, NeedNoCache) {
  const ScopedVariable nowhere("XDG_CACHE_HOME", "/dev/null/no-folder");
  EXPECT_EQ(open_dataset("digits")->train->size(), 60000);
}

TEST(DrawDigit, ShowsEveryClassAboutEquallyOften) {
  std::vector<int> count(10);
  std::vector<uint8_t> pixels(kDigitPixels);
  for (int64_t i = 0; i < 2000; ++i) ++count[draw_digit(DigitSplit::train, i, pixels.data())];
  for (const int n : count) EXPECT_NEAR(n, 200, 60);
}

TEST(DrawDigit, DrawsOtherDigitsForTesting) {
  std::vector<uint8_t> train(kDigitPixels), test(kDigitPixels);
  draw_digit(DigitSplit::train, 5, train.data());
  draw_digit(DigitSplit::test, 5, test.data());
  EXPECT_NE(train, test);
}

}  // namespace
}  // namespace crossbow::data
