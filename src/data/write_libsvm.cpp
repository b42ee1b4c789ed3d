#include "data/write_libsvm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>

#include "core/error.h"
#include "core/file.h"
#include "data/held_out.h"

namespace crossbow::data {
namespace {

using Path = std::filesystem::path;

bool is_whole_number(const std::string& text) {
  int32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

/// What stands for each class in the file.
std::vector<std::string> labels_of(const Info& info) {
  const auto& names = info.class_names;
  if (std::all_of(names.begin(), names.end(), is_whole_number)) return names;
  std::vector<std::string> numbers;
  for (int64_t c = 0; c < info.classes; ++c) numbers.push_back(std::to_string(c));
  return numbers;
}

/// Appends a row's numbers that are not 0; the first feature has the index 1.
struct AppendNumbers {
  fmt::memory_buffer& text;
  int64_t features;
  int64_t last = -1;  // column that was written

  void append(int64_t column, float value) {
    fmt::format_to(std::back_inserter(text), " {}:{}", column + 1, value);
    last = column;
  }
  void operator()(const SparseRow& row) {
    for (size_t k = 0; k < row.columns.size(); ++k) append(row.columns[k], row.values[k]);
  }
  void operator()(const float* row) {
    for (int64_t f = 0; f < features; ++f) {
      if (row[f] != 0) append(f, row[f]);
    }
  }
  void operator()(const uint8_t*) {}  // of images, which are refused before, as are pictures
  void operator()(const EncodedPicture&) {}
};

void write_rows(const Split& split, const Info& info, AtomicFile& file) {
  constexpr size_t kPiece = 1 << 20;  // bytes
  const std::vector<std::string> labels = labels_of(info);
  const int64_t features = info.image.elements();
  fmt::memory_buffer text;
  const auto flush = [&] {
    file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    text.clear();
  };
  for (int64_t i = 0; i < split.size(); ++i) {
    const char* separator = "";
    const auto set = split.label_set(i);
    for (const int32_t label : set) {
      fmt::format_to(std::back_inserter(text), "{}{}", separator,
                     labels[static_cast<size_t>(label)]);
      separator = ",";
    }
    AppendNumbers numbers{text, features};
    std::visit(numbers, split.sample(i, nullptr));
    const bool nothing = set.empty() && numbers.last < 0;
    if (nothing || (i == 0 && numbers.last < features - 1)) numbers.append(features - 1, 0);
    text.push_back('\n');
    if (text.size() >= kPiece) flush();
  }
  flush();
}

void expect_nothing_at(const Path& path) {
  const std::filesystem::file_type type = type_of(path);
  if (type == std::filesystem::file_type::not_found) return;
  if (type == std::filesystem::file_type::directory) {
    fail("{} is a folder; name a file in it", path.string());
  }
  fail("{} is there already; remove it, or name another file", path.string());
}

/// FILE.t is the test set of FILE, packed or not (libsvm_set.cpp).
void expect_not_beside(const Path& path, std::initializer_list<const char*> endings) {
  for (const char* ending : endings) {
    const Path source = path.string() + ending;
    if (type_of(source) == std::filesystem::file_type::not_found) continue;
    fail("{}.t would become the test set of {}; choose another name", path.string(),
         source.string());
  }
}

}  // namespace

void write_libsvm(const Dataset& dataset, const Path& path) {
  if (dataset.info.has_images()) {
    fail("{} is a set of images; LIBSVM's format holds rows of numbers", dataset.info.name);
  }
  if (dataset.info.label == LabelKind::number) {
    fail("{} has numbers for labels; LIBSVM's format holds classes", dataset.info.name);
  }
  if (is_packed(path)) fail("{}: rows are written unpacked; choose another name", path.string());
  Path test = path;
  test += ".t";
  expect_nothing_at(path);
  expect_nothing_at(test);
  expect_not_beside(path, {".gz", ".bz2"});
  if (path.extension() == ".t") {
    expect_not_beside(Path(path).replace_extension(), {"", ".gz", ".bz2"});
  }
  AtomicFile train_file(path), test_file(test);
  write_rows(*dataset.train, dataset.info, train_file);
  write_rows(*dataset.test, dataset.info, test_file);
  test_file.commit();  // first, as the other alone would be a set
  try {
    train_file.commit();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(test, ignored);
    throw;
  }
}

}  // namespace crossbow::data
