// Text files in pieces, when whoever reads one gives up.
#include "data/text_pieces.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "data/files.h"
#include "data/held_out.h"

namespace crossbow::data {
namespace {

struct Lines {};
struct GivenUp {};

std::atomic<int> g_parsed = 0;

void parse(std::string_view, int64_t, Lines&) {
  ++g_parsed;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(TextPieces, NoPieceIsBegunOnceTheReaderHasGivenUp) {
  const TemporaryFolder folder;
  const Path file = folder.path() / "rows";
  std::ofstream(file) << std::string(size_t{64} << 20, '\n');
  OpenOptions options;
  options.threads = 2;
  g_parsed = 0;
  TextPieces<Lines>(file, parse).read(options);
  const int all = g_parsed;
  ASSERT_GT(all, 8);
  options.progress = [](std::string_view, int64_t, int64_t) { throw GivenUp(); };
  g_parsed = 0;
  EXPECT_THROW(TextPieces<Lines>(file, parse).read(options), GivenUp);
  EXPECT_LT(g_parsed, all / 2);
}

TEST(TextPieces, TheirNamesSayWhetherTheyArePacked) {
  EXPECT_TRUE(is_packed("rows.gz"));
  EXPECT_TRUE(is_packed("rows.bz2"));
  EXPECT_FALSE(is_packed("rows.t"));
  const std::string note = HeldOut::note("folder/rows.gz", 1234);
  EXPECT_EQ(note.substr(0, note.find(',')), "there is no rows.t");
}

}  // namespace
}  // namespace crossbow::data
