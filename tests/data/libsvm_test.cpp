#include "data/libsvm.h"

#include <bzlib.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <sstream>

#include "core/rng.h"
#include "data/files.h"
#include "data/text_reader.h"

namespace crossbow::data {
namespace {

LibsvmRows parse(std::string_view text) {
  LibsvmRows rows;
  parse_libsvm(text, 1, rows);
  return rows;
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string gzipped(std::string_view text) {
  const FileBytes packed = gzip({text.begin(), text.end()});
  return {packed.begin(), packed.end()};
}

std::string bzipped(std::string_view text) {
  auto size = static_cast<unsigned>(text.size() + text.size() / 100 + 600);
  std::string packed(size, 0);
  BZ2_bzBuffToBuffCompress(packed.data(), &size, const_cast<char*>(text.data()),
                           static_cast<unsigned>(text.size()), 9, 0, 0);
  packed.resize(size);
  return packed;
}

/// A sample as all its numbers.
std::vector<float> numbers(const Dataset& set, const Split& split, int64_t i) {
  const auto row = std::get<SparseRow>(split.sample(i, nullptr));
  std::vector<float> all(static_cast<size_t>(set.info.image[0]));
  for (size_t k = 0; k < row.columns.size(); ++k) {
    all[static_cast<size_t>(row.columns[k])] = row.values[k];
  }
  return all;
}

std::vector<int32_t> classes(const Split& split, int64_t row) {
  const auto set = split.label_set(row);
  return {set.begin(), set.end()};
}

class Libsvm : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> open(std::string_view text, int threads = 2) {
    write_text(path_, text);
    return open_dataset("libsvm:" + path_.string(), {.threads = threads});
  }
  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "set";
  const std::filesystem::path test_path_ = folder_.path() / "set.t";
};

TEST_F(Libsvm, ReadsRowsAsTheyStand) {
  const LibsvmRows rows = parse("-1 3:0.5 17:-2e-3\r\n\n  \n+1\n2.0\t1:+4 # a remark 5:6\n");
  EXPECT_EQ(rows.labels, (std::vector<int32_t>{-1, 1, 2}));
  EXPECT_EQ(rows.label_ends, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(rows.value_ends, (std::vector<int64_t>{2, 2, 3}));
  EXPECT_EQ(rows.indices, (std::vector<int32_t>{3, 17, 1}));
  EXPECT_EQ(rows.values, (std::vector<float>{0.5f, -2e-3f, 4}));
  EXPECT_FALSE(rows.label_sets);
  EXPECT_EQ(rows.line_without_label, 0);
}

TEST_F(Libsvm, ReadsLabelSets) {
  const LibsvmRows rows = parse("3,1,7 0:1\n 2:5\n\n1 4:1\n");
  EXPECT_EQ(rows.labels, (std::vector<int32_t>{3, 1, 7, 1}));
  EXPECT_EQ(rows.label_ends, (std::vector<int64_t>{3, 3, 4}));
  EXPECT_TRUE(rows.label_sets);
  EXPECT_EQ(rows.line_without_label, 2);
}

TEST_F(Libsvm, SaysWhereAndWhy) {
  const auto because = [](std::string_view line, std::string_view reason) {
    EXPECT_ERROR(parse("1 1:1\n\n" + std::string(line) + "\n1 1:1\n"),
                 "line 3: " + std::string(reason));
  };
  because("cat 1:1", "no label: 'cat'");
  because("1,,2 1:1", "no label: ''");
  because("+-1 1:1", "no label: '+-1'");
  because("+ 1:1", "no label: '+'");
  because("1 3:+-2", "no index:value: '3:+-2'");
  because("1.5 1:1", "classes are whole numbers, and not the label '1.5'");
  because("99999999999 1:1", "classes are whole numbers");
  because("1 1", "no index:value: '1'");
  because("1 :1", "no index:value: ':1'");
  because("1 -3:1", "no index:value: '-3:1'");
  because("1 qid:7 1:2", "no index:value: 'qid:7'");
  because("1 1:", "no index:value: '1:'");
  because("1 1:2x", "no index:value: '1:2x'");
  because("1 1:2:3", "no index:value: '1:2:3'");
  because("1 1:nan", "no number that a float can hold: '1:nan'");
  because("1 1:inf", "no number that a float can hold: '1:inf'");
  because("1 1:1e39", "no number that a float can hold: '1:1e39'");
  because("1 1:1e999", "no number that a float can hold: '1:1e999'");
  because("1 3:1 2:1", "the index 2 follows 3: indices ascend, each once");
  because("1 3:1 3:1", "the index 3 follows 3: indices ascend, each once");
  because("1 2147483647:1", "a larger index than can be held: '2147483647:1'");
  because("1 99999999999999999999999:1", "a larger index than can be held");
}

TEST_F(Libsvm, TakesNumbersThatAreTooSmallForFloats) {
  EXPECT_EQ(parse("1 1:1e-60 2:-1e-42").values, (std::vector<float>{0, -1e-42f}));
}

TEST_F(Libsvm, NumbersClassesAndFeaturesFromZero) {
  write_text(test_path_, "5 2:7\n");
  const auto set = open("9 1:1 4:2\n-2\n");
  EXPECT_EQ(set->info.image, Shape{4});
  EXPECT_EQ(set->info.class_names, (std::vector<std::string>{"-2", "5", "9"}));
  EXPECT_EQ(set->train->label(0), 2);
  EXPECT_EQ(set->train->label(1), 0);
  EXPECT_EQ(set->test->label(0), 1);
  EXPECT_EQ(numbers(*set, *set->train, 0), (std::vector<float>{1, 0, 0, 2}));
  EXPECT_EQ(numbers(*set, *set->train, 1), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(numbers(*set, *set->test, 0), (std::vector<float>{0, 7, 0, 0}));
  EXPECT_EQ(set->info.note, "");
}

TEST_F(Libsvm, TakesAnIndexOfZeroAsTheFirst) {
  write_text(test_path_, "1 0:7\n");  // in either file
  const auto set = open("0 1:1 3:2\n1 1:1\n");
  EXPECT_EQ(set->info.image, Shape{4});
  EXPECT_EQ(numbers(*set, *set->train, 0), (std::vector<float>{0, 1, 0, 2}));
}

TEST_F(Libsvm, KeepsSetsOfClasses) {
  write_text(test_path_, "7 1:1\n");
  const auto set = open("3,1 1:1\n 1:1\n7 1:1\n");
  EXPECT_EQ(set->info.label, LabelKind::class_set);
  EXPECT_EQ(set->info.classes, 3);
  EXPECT_EQ(classes(*set->train, 0), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(classes(*set->train, 1), (std::vector<int32_t>{}));
  EXPECT_EQ(classes(*set->train, 2), (std::vector<int32_t>{2}));
  EXPECT_EQ(classes(*set->test, 0), (std::vector<int32_t>{2}));
}

TEST_F(Libsvm, HoldsOutATenthWhereThereIsNoTestFile) {
  std::string text;
  for (int i = 1; i <= 1000; ++i) text += fmt::format("1 {}:1\n", i);
  const auto set = open(text), again = open(text, 1);
  EXPECT_EQ(set->train->size() + set->test->size(), 1000);
  EXPECT_NEAR(static_cast<double>(set->test->size()), 100, 30);
  std::vector<int> seen(1000);
  for (const auto& split : {set->train, set->test}) {
    for (int64_t i = 0; i < split->size(); ++i) {
      const auto row = std::get<SparseRow>(split->sample(i, nullptr));
      ++seen[static_cast<size_t>(row.columns[0])];
    }
  }
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
  ASSERT_EQ(again->test->size(), set->test->size());
  for (int64_t i = 0; i < set->test->size(); ++i) {
    EXPECT_EQ(std::get<SparseRow>(set->test->sample(i, nullptr)).columns[0],
              std::get<SparseRow>(again->test->sample(i, nullptr)).columns[0]);
  }
  EXPECT_NE(set->info.note.find("there is no set.t"), std::string::npos);

  const auto two = open("1 1:1\n2 1:1\n");
  EXPECT_EQ(two->train->size(), 1);
  EXPECT_EQ(two->test->size(), 1);
  EXPECT_ERROR(open("1 1:1\n"), "a single row");
}

/// Of rows with one to three numbers and as many classes, of which the largest comes first, in a
/// file of two pieces.
TEST_F(Libsvm, RowsAreWholeWhereverTheyGo) {
  constexpr std::array kSets{"5", "7,6", "9,5,8"};
  std::string text;
  for (int i = 0; i < 160'000; ++i) {
    text += kSets[static_cast<size_t>(i) % 3];
    for (int k = 0; k <= i % 3; ++k) text += fmt::format(" {}:{}", 1 + i + k, i);
    text += '\n';
  }
  ASSERT_GT(text.size(), size_t{4} << 20);
  const auto set = open(text);
  EXPECT_EQ(set->train->size() + set->test->size(), 160'000);
  const std::array<std::vector<int32_t>, 3> expected{{{0}, {1, 2}, {0, 3, 4}}};
  for (const auto& split : {set->train, set->test}) {
    for (int64_t row = 0; row < split->size(); ++row) {
      const auto found = std::get<SparseRow>(split->sample(row, nullptr));
      ASSERT_FALSE(found.columns.empty());
      const int32_t i = found.columns[0];
      ASSERT_EQ(classes(*split, row), expected[static_cast<size_t>(i) % 3]);
      ASSERT_EQ(std::ssize(found.columns), 1 + i % 3);
      for (int32_t k = 0; k <= i % 3; ++k) {
        ASSERT_EQ(found.columns[static_cast<size_t>(k)], i + k);
        ASSERT_EQ(found.values[static_cast<size_t>(k)], static_cast<float>(i));
      }
    }
  }
}

TEST_F(Libsvm, NamesTheFileAndTheLine) {
  EXPECT_ERROR(open("1 1:1\n1 x\n"), path_.string() + ": line 2: no index:value: 'x'");
  EXPECT_ERROR(open("1 1:1\n2:1\n"), path_.string() + ", line 2: it has no label");
  EXPECT_ERROR(open(""), "holds no rows");
  EXPECT_ERROR(open("1\n2\n"), "no row has a feature");
  EXPECT_ERROR(open_dataset("libsvm:" + (folder_.path() / "none").string()), "cannot read");
}

TEST_F(Libsvm, TakesManyLabelsForNoClasses) {
  std::string text;
  for (int label = 0; label <= 1 << 20; ++label) text += fmt::format("{} 1:1\n", label);
  EXPECT_ERROR(open(text), path_.string() + " has more than 1,048,576 different labels");
}

/// Several pieces, read by several threads, against the slow and simple way.
TEST_F(Libsvm, ReadsLongFilesInTheirOrder) {
  Rng rng(1, Purpose::synthetic);
  std::string text;
  while (text.size() < size_t{10} << 20) {
    text += std::to_string(rng.below(7));
    for (uint32_t index = 1 + rng.below(9); index < 300; index += 1 + rng.below(40)) {
      text += fmt::format(" {}:{:.6f}", index, rng.uniform(-9, 9));
    }
    text += "\n";
    if (rng.below(10) == 0) text += "\n";
  }
  LibsvmRows expected;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int32_t label;
    if (!(words >> label)) continue;
    expected.labels.push_back(label);
    for (std::string word; words >> word;) {
      const size_t colon = word.find(':');
      expected.indices.push_back(std::stoi(word.substr(0, colon)));
      expected.values.push_back(std::stof(word.substr(colon + 1)));
    }
    expected.value_ends.push_back(static_cast<int64_t>(expected.values.size()));
  }
  const std::string packed = gzipped(text);
  const std::string two_streams = gzipped(std::string_view(text).substr(0, 5000)) +
                                  gzipped(std::string_view(text).substr(5000));
  for (const std::string& file : {text, packed, two_streams, bzipped(text)}) {
    write_text(path_, file);
    for (const int threads : {1, 3}) {
      const auto pieces = read_libsvm(path_, {.threads = threads});
      EXPECT_GT(pieces.size(), 2u);
      LibsvmRows all;
      for (const LibsvmRows& piece : pieces) {
        const auto before = static_cast<int64_t>(all.values.size());
        const auto append = [](auto& to, const auto& from) {
          to.insert(to.end(), from.begin(), from.end());
        };
        append(all.labels, piece.labels);
        append(all.indices, piece.indices);
        append(all.values, piece.values);
        for (const int64_t end : piece.value_ends) all.value_ends.push_back(before + end);
      }
      ASSERT_EQ(all.labels, expected.labels);
      ASSERT_EQ(all.indices, expected.indices);
      ASSERT_EQ(all.values, expected.values);
      ASSERT_EQ(all.value_ends, expected.value_ends);
    }
  }
}

/// A row's arrays are its numbers with their indices, a label, and where both end. What was taken
/// before counts, so the test is for a process of its own, as CTest makes it.
TEST_F(Libsvm, TakesAtMostTwiceTheMemoryOfItsArrays) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "its own memory counts";
#endif
  constexpr int64_t kRows = 200'000, kNumbers = 40;
  std::string row = "1";
  for (int i = 1; i <= kNumbers; ++i) row += fmt::format(" {}:0.{:06}", i, 100'003 * i % 999'983);
  {
    std::ofstream file(path_);
    for (int64_t i = 0; i < kRows; ++i) file << row << '\n';
  }
  write_text(test_path_, "2 1:1\n");
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const auto set = open_dataset("libsvm:" + path_.string(), {.threads = 2});
  getrusage(RUSAGE_SELF, &after);
  ASSERT_EQ(set->train->size(), kRows);
  constexpr int64_t kArrays = kRows * (kNumbers * 8 + 4 + 16);
  EXPECT_LT((after.ru_maxrss - before.ru_maxrss) * 1024, 2 * kArrays);
}

TEST_F(Libsvm, CountsLinesOverPiecesAndNamesTheFirstThatIsWrong) {
  std::string text;
  int64_t lines = 0;
  while (text.size() < size_t{13} << 20) {
    text += "1 1:1 2:2 3:3 4:4 5:5 6:6 7:7\n";
    ++lines;
  }
  text += "wrong\n";
  const std::string later(size_t{9} << 20, '\n');
  write_text(path_, text + later + "wrong, too\n");
  for (const int threads : {1, 4}) {
    EXPECT_ERROR(read_libsvm(path_, {.threads = threads}),
                 "line " + std::to_string(lines + 1) + ": no label: 'wrong'");
  }
}

TEST_F(Libsvm, RefusesCutAndDamagedArchives) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += fmt::format("1 {}:1\n", i + 1);
  for (const std::string& packed : {gzipped(text), bzipped(text)}) {
    write_text(path_, std::string_view(packed).substr(0, packed.size() - 3));
    EXPECT_ERROR(read_libsvm(path_, {}), path_.string() + " is cut short");
    std::string damaged = packed;
    for (size_t i = packed.size() / 2; i < packed.size() / 2 + 8; ++i) damaged[i] ^= 0x55;
    write_text(path_, damaged);
    EXPECT_ERROR(read_libsvm(path_, {}), path_.string());
    write_text(path_, packed + "and more");
    EXPECT_ERROR(read_libsvm(path_, {}), "damaged");
  }
}

TEST_F(Libsvm, RefusesLinesThatAreTooLong) {
  std::string text = "1 1:1\n1";
  for (int i = 1; text.size() <= TextReader::kLongestLine + 100; ++i) {
    text += fmt::format(" {}:1", i);
  }
  write_text(path_, text + "\n1 1:1\n");
  EXPECT_ERROR(read_libsvm(path_, {}), path_.string() + ", line 2: it is longer than 16 MiB");
  text.resize(size_t{15} << 20);
  text.resize(text.rfind(' '));
  write_text(path_, text + "\n1 1:1\n");
  int64_t rows = 0;
  for (const LibsvmRows& piece : read_libsvm(path_, {})) rows += piece.size();
  EXPECT_EQ(rows, 3);
}

}  // namespace
}  // namespace crossbow::data
