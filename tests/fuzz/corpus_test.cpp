#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/rng.h"
#include "fuzz/target.h"
#include "support/paths.h"

namespace crossbow::fuzz {
namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> corpus_of(const std::string& name) {
  std::vector<Bytes> corpus;
  const std::filesystem::path folder = fuzz_corpus_folder() + "/" + name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

TEST(Corpus, LeavesEveryParserStanding) {
  ASSERT_FALSE(targets().empty());
  for (const auto& [name, target] : targets()) {
    const std::vector<Bytes> corpus = corpus_of(name);
    EXPECT_FALSE(corpus.empty()) << name;
    for (const Bytes& bytes : corpus) run(target, bytes);
  }
}

/// A poor man's fuzzer, for builds without the real one: cuts and altered bytes.
TEST(Corpus, LeavesEveryParserStandingWhenItIsDamaged) {
  for (const auto& [name, target] : targets()) {
    uint64_t number = 0;
    for (const Bytes& bytes : corpus_of(name)) {
      Rng rng(1, Purpose::synthetic, 0, number++);
      for (int trial = 0; trial < 40 && !bytes.empty(); ++trial) {
        Bytes damaged(bytes.begin(), bytes.end() - rng.below(trial % 2 ? 1 : bytes.size()));
        for (int k = 0; k < trial % 4; ++k) {
          damaged[rng.below(static_cast<uint32_t>(damaged.size()))] =
              static_cast<uint8_t>(rng.next());
        }
        run(target, damaged);
      }
    }
  }
}

}  // namespace
}  // namespace crossbow::fuzz
