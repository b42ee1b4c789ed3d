#include "train/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "support/error_text.h"
#include "support/text.h"
#include "train/checkpoints.h"
#include "train/encoded.h"
#include "train/tiny_learners.h"

namespace crossbow {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::load;
using testing::StopAfter;
using testing::tiny_net;

/// A file whose header is that text.
FileBytes file_of(const std::string& header, const std::vector<uint8_t>& data) {
  std::vector<uint8_t> bytes(8);
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(header.size() >> 8 * i);
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return {std::ssize(bytes), [bytes](int64_t offset, std::span<uint8_t> part) {
            std::copy_n(bytes.begin() + offset, part.size(), part.begin());
          }};
}

template <typename T>
std::vector<uint8_t> raw(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> only(const std::string& type, const std::vector<uint8_t>& data, int64_t n) {
  const SafeTensors file(file_of(fmt::format(R"({{"x":{{"dtype":"{}","shape":[{}],)"
                                             R"("data_offsets":[0,{}]}}}})",
                                             type, n, data.size()),
                                 data));
  return file.values(file.tensors().at(0));
}

TEST(SafeTensorsFile, HoldsFloatingPointNumbersOfEachWidth) {
  EXPECT_EQ(only("F32", raw<float>({1.5f, -2}), 2), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(only("F64", raw<double>({0.1}), 1), (std::vector<float>{0.1f}));
  EXPECT_EQ(only("BF16", raw<uint16_t>({0x3f80, 0xc040}), 2), (std::vector<float>{1, -3}));
  // 1, the smallest, the largest below one, the largest subnormal and the largest at all, -2, -0.
  const std::vector<uint16_t> halves{0x3c00, 0x0001, 0x3bff, 0x03ff, 0x7bff, 0xc000, 0x8000};
  const std::vector<float> expected{1, 0x1p-24f, 0x1.ffcp-1f, 0x1.ff8p-15f, 0x1.ffcp15f, -2, -0.0f};
  EXPECT_EQ(only("F16", raw(halves), 7), expected);
}

TEST(SafeTensorsFile, WithFaultsIsRefusedInASentence) {
  const auto error = [](const std::string& header, size_t bytes = 8) {
    return error_of([&] { SafeTensors{file_of(header, std::vector<uint8_t>(bytes))}; });
  };
  const auto entry = [](const char* name, const char* shape, int begin, int end,
                        const char* type = "F32") {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, type,
                       shape, begin, end);
  };
  const auto header = [](const std::string& entries) { return "{" + entries + "}"; };
  EXPECT_EQ(SafeTensors(file_of(header(entry("a", "[2]", 0, 8)), std::vector<uint8_t>(8)))
                .tensors()
                .size(),
            1u);
  // Of a type that is not known, which nobody may want.
  EXPECT_EQ(error(header(entry("a", "[3]", 0, 8, "F31"))), "no error");
  expect_says(error(header(entry("a", "[2]", 0, 8)), 12), "4 bytes at the end are nobody's");
  expect_says(error(header(entry("a", "[1]", 4, 8))), "tensor a: 4 bytes before it are nobody's");
  expect_says(error(header(entry("a", "[2]", 0, 8) + "," + entry("b", "[1]", 4, 8))),
              "tensor b: its values overlap");
  expect_says(error(header(entry("a", "[3]", 0, 8))), "8 bytes are not what its shape");
  expect_says(error(header(entry("a", "[4]", 0, 16))), "where the file has none");
  expect_says(error(header(entry("a", "[-2]", 0, 8))), "not what its shape");
  expect_says(error(header(entry("a", "[4294967296,4294967296]", 0, 8))), "not what its shape");
  expect_says(error(header(entry("a", "[0.5]", 0, 8))), "whole numbers");
  expect_says(error_of([] { only("F31", raw<float>({1}), 1); }), "its type F31 is not known");
  expect_says(error(R"({"a":{"shape":[2]}})"), "its type, shape or place is missing");
  expect_says(error(R"({"a":7})"), "its type, shape or place is missing");
  expect_says(error("[]"), "no JSON object");
  expect_says(error(R"({"__metadata__":{"format":7}})"), "its __metadata__ is no object of texts");
  expect_says(error(R"({"a":{"dtype":[[[[)"), "nested too deeply");
  expect_says(error(R"({"a":"[[[[\"[[[["})"), "its type, shape or place is missing");
  expect_says(error("{"), "would have 1 bytes");
  expect_says(error("{{"), "no JSON object");
  const FileBytes huge{int64_t{1} << 40, [](int64_t, std::span<uint8_t> part) {
                         std::fill(part.begin(), part.end(), uint8_t{0});
                         part[4] = 1;  // a header of 4 GiB
                       }};
  expect_says(error_of([&] { SafeTensors{huge}; }), "which are too many");
  EXPECT_THROW(only("I64", raw<int64_t>({1}), 1), Error);
  EXPECT_THROW(only("F32", raw<float>({std::numeric_limits<float>::quiet_NaN()}), 1), Error);
}

/// In a moment: none costs a look at all others.
TEST(SafeTensorsFile, MayHaveManyTensors) {
  std::string header = "{";
  for (int i = 0; i < 300'000; ++i) header += fmt::format(R"("{}":{{}},)", i);
  header.back() = '}';
  expect_says(error_of([&] { SafeTensors{file_of(header, {})}; }), "place is missing");
}

TEST(SafeTensorsFile, ComesBackWithItsChecksum) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const auto read = [&](int64_t first, std::span<float> part) {
    std::copy_n(values.begin() + first, part.size(), part.begin());
  };
  std::vector<uint8_t> bytes;
  encode_safetensors({{"b \"x\"", {2, 3}, read}, {"a", {}, read}, {"none", {0}, read}},
                     {{"z", "\xff"}, {"format", "pt"}}, testing::sink_of(bytes));
  const SafeTensors file(testing::file_of(bytes));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("z"), "\xEF\xBF\xBD");
  ASSERT_EQ(file.tensors().size(), 3u);
  const auto& first = *file.find("b \"x\"");
  EXPECT_EQ(first.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(first.first % 8, 0);
  EXPECT_EQ(file.values(first), values);
  EXPECT_EQ(file.values(*file.find("a")), (std::vector<float>{1}));
  ASSERT_TRUE(has_checksum(testing::file_of(bytes)));
  EXPECT_TRUE(is_intact(testing::file_of(bytes)));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<uint8_t> bad = bytes;
    bad[i] ^= 1;
    const FileBytes damaged = testing::file_of(bad);
    EXPECT_FALSE(has_checksum(damaged) && is_intact(damaged)) << i;
  }
}

/// In pieces, of which one is written while the next is read.
TEST(SafeTensorsFile, OfManyPiecesIsWhole) {
  constexpr int64_t kValues = (int64_t{5} << 20) + 3;
  const auto read = [](int64_t first, std::span<float> part) {
    for (float& value : part) value = static_cast<float>(first++);
  };
  std::vector<uint8_t> bytes;
  encode_safetensors({{"x", {kValues}, read}, {"y", {1}, read}}, {}, testing::sink_of(bytes));
  const FileBytes file = testing::file_of(bytes);
  EXPECT_TRUE(is_intact(file));
  const std::vector<float> values = SafeTensors(file).values(*SafeTensors(file).find("x"));
  for (int64_t i = 0; i < kValues; ++i) ASSERT_EQ(values[i], static_cast<float>(i));
  const auto unreadable = [](int64_t first, std::span<float>) {
    if (first > 0) fail("it is gone");
  };
  EXPECT_EQ(error_of([&] {
              encode_safetensors({{"x", {kValues}, unreadable}}, {}, testing::sink_of(bytes));
            }),
            "it is gone");
  FileSink full = testing::sink_of(bytes);
  full.append = [](std::span<const uint8_t> piece) {
    if (piece.size() > 1 << 20) fail("the disk is full");
  };
  EXPECT_EQ(error_of([&] {
              encode_safetensors({{"x", {kValues}, read}}, {}, full);
            }),
            "the disk is full");
}

class InitialWeights : public testing::TinyLearners {
 protected:
  /// Of a run's model, as a file; a tensor may be left out or have another shape.
  std::string export_of(const std::string& run, const std::function<void(NamedTensor&)>& change) {
    std::vector<NamedTensor> tensors;
    for (const auto& t : load(folder(run)).tensors) {
      if (t.role != Checkpoint::Role::parameter && t.role != Checkpoint::Role::state) continue;
      NamedTensor& named =
          tensors.emplace_back(NamedTensor{t.name, {t.shape.begin(), t.shape.end()}, t.read});
      change(named);
      if (named.name.empty()) tensors.pop_back();
    }
    const std::string path = folder(run + ".safetensors");
    write_safetensors(path, tensors, {{"format", "pt"}});
    return path;
  }
  std::map<std::string, std::vector<float>> first_state(const std::string& run,
                                                        const std::string& init) {
    TrainOptions o = options(run, "sma", 2);
    o.init = init;
    StopAfter stop(0);
    train(tiny_net, o, &stop);
    notes_ = stop.notes;
    return values_of(run);
  }
  std::map<std::string, std::vector<float>> values_of(const std::string& run) {
    std::map<std::string, std::vector<float>> values;
    for (const auto& t : load(folder(run)).tensors) {
      if (t.role == Checkpoint::Role::parameter || t.role == Checkpoint::Role::state) {
        values[t.name] = t.values();
      }
    }
    return values;
  }
  std::string refusal(const std::string& file) {
    return error_of([&] { first_state("refused", file); });
  }

  std::string notes_;
};

TEST_F(InitialWeights, AreThoseOfTheFile) {
  train(tiny_net, options("trained", "sma", 2));
  const std::string file = export_of("trained", [](NamedTensor&) {});
  EXPECT_EQ(first_state("next", file), values_of("trained"));
  EXPECT_EQ(notes_.find("`init`"), std::string::npos) << notes_;
  EXPECT_EQ(load(folder("next")).options.init, file);
}

TEST_F(InitialWeights, MayBeACheckpoints) {
  train(tiny_net, options("trained", "sma", 2));
  EXPECT_EQ(first_state("next", folder("trained") + "/checkpoint"), values_of("trained"));
  expect_says(notes_, "the first of them learner.0.weights/conv2d.weight");
}

TEST_F(InitialWeights, OfADamagedFileAreRefused) {
  train(tiny_net, options("trained", "sma", 2));
  const std::string path = folder("trained") + "/checkpoint";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-9, std::ios::end);
  const int byte = file.get();
  file.seekp(-9, std::ios::end);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  expect_says(refusal(path), "its checksum does not match");
}

TEST_F(InitialWeights, OfOtherClassesAreDrawnAndTold) {
  train(tiny_net, options("trained", "sma", 2));
  std::vector<std::string> heads;
  const std::string file = export_of("trained", [&](NamedTensor& t) {
    if (t.shape[0] != 10) return;
    heads.push_back(t.name);
    t.shape[0] = 7;
  });
  ASSERT_FALSE(heads.empty());
  auto trained = values_of("trained"), next = first_state("next", file);
  expect_says(notes_, "drawn afresh, for other outputs: " + heads[0] + " [10");
  for (const std::string& head : heads) {
    trained.erase(head);
    next.erase(head);
  }
  EXPECT_EQ(next, trained);
}

TEST_F(InitialWeights, OfAnotherNetAreRefused) {
  train(tiny_net, options("trained", "sma", 2));
  const std::string renamed = refusal(export_of("trained", [](NamedTensor& t) {
    if (t.name == "conv2d.weight") t.name += "s";
  }));
  expect_says(renamed, "it has no tensor conv2d.weight among its 7, which the net needs");
  const std::string reshaped = refusal(export_of("trained", [](NamedTensor& t) {
    if (t.name == "conv2d.weight") t.shape.push_back(1);
  }));
  expect_says(reshaped, "its tensor conv2d.weight has shape [5, 1, 3, 3, 1], and the net's has");
  const std::string of_other_filters = refusal(export_of("trained", [](NamedTensor& t) {
    if (t.name == "conv2d.weight") t.shape[0] = 4;
  }));
  expect_says(of_other_filters, "its tensor conv2d.weight has shape [4, 1, 3, 3]");
  expect_says(refusal(folder("nothing.safetensors")), "nothing.safetensors");
  std::ofstream(folder("old.pth")) << "PK and more";
  expect_says(refusal(folder("old.pth")), "python3 -c");
}

/// The length of its header may be the first bytes of a pickle or of an archive.
TEST_F(InitialWeights, OfALengthThatLooksLikeAPickleAreRead) {
  for (const size_t length : {size_t{0x80}, size_t{'P' | 'K' << 8}}) {
    std::string header = R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})";
    header.resize(length, ' ');
    const uint64_t size = header.size();
    const std::string file = folder("padded.safetensors");
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&size), sizeof(size));
    out << header;
    out.close();
    expect_says(refusal(file), "it has no tensor conv2d.weight among its 1");
  }
}

}  // namespace
}  // namespace crossbow
