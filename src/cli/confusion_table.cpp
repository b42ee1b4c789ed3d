#include "cli/confusion_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output.h"
#include "core/text.h"

namespace crossbow::cli {
namespace {

std::string accuracy_text(const Confusion& confusion, int64_t c) {
  return confusion.samples(c) > 0 ? percent(confusion.accuracy(c)) : "-";
}

/// A row for each class, with a column for each that was predicted. Columns are as narrow as their
/// counts; names that do not fit stand at the rows only, with a number. False, and nothing is
/// printed, if that is too wide.
bool print_matrix(const ClassResult& r) {
  const Confusion& confusion = r.confusion;
  const int64_t classes = confusion.classes(), most = confusion.most();
  const size_t cell = std::max<size_t>(3, std::to_string(most).size());
  std::vector<std::string> rows;
  for (const std::string& n : r.names) rows.push_back(printable(n));
  std::vector<std::string> columns = rows;
  if (std::any_of(rows.begin(), rows.end(), [&](const auto& n) { return columns_of(n) > cell; })) {
    for (size_t c = 0; c < rows.size(); ++c) {
      columns[c] = std::to_string(c);
      rows[c] = columns[c] + ' ' + rows[c];
    }
  }
  size_t name = std::string_view("class").size();
  for (const std::string& n : rows) name = std::max(name, columns_of(n));
  constexpr size_t kNumbers = 18;  // columns of each row's own
  if (name + kNumbers + rows.size() * (cell + 1) > cli::columns(stdout)) return false;
  put("\n{:<{}} {:>6} {:>9}  predicted as\n", "", name, "", "");
  put("{:<{}} {:>6} {:>9} ", "class", name, r.samples, "accuracy");
  for (const std::string& n : columns) put(" {:>{}}", n, cell);
  put("\n");
  for (int64_t a = 0; a < classes; ++a) {
    put("{:<{}} {:>6} {:>9} ", rows[static_cast<size_t>(a)], name, grouped(confusion.samples(a)),
        accuracy_text(confusion, a));
    for (int64_t p = 0; p < classes; ++p) {
      const int64_t n = confusion.count(a, p);
      put(" {:>{}}", n > 0 ? std::to_string(n) : ".", cell);
    }
    put("\n");
  }
  return true;
}

/// Of many classes, where the model is weakest.
void print_worst(const ClassResult& r) {
  constexpr size_t kShown = 10;
  const auto name = [&](int64_t c) { return printable(r.names[static_cast<size_t>(c)]); };
  const auto worst = r.confusion.worst_first();
  put("\n{:<28} {:>8} {:>9}\n", "least accurate classes", r.samples, "accuracy");
  for (size_t i = 0; i < std::min(kShown, worst.size()); ++i) {
    put("{:<28} {:>8} {:>9}\n", name(worst[i]), grouped(r.confusion.samples(worst[i])),
        accuracy_text(r.confusion, worst[i]));
  }
  const auto mistakes = r.confusion.mistakes();
  if (mistakes.empty()) return;
  put("\n{:<28} {:<28} {:>8}\n", "most frequent confusions of", "with", r.samples);
  for (size_t i = 0; i < std::min(kShown, mistakes.size()); ++i) {
    put("{:<28} {:<28} {:>8}\n", name(mistakes[i].actual), name(mistakes[i].predicted),
        grouped(mistakes[i].count));
  }
}

}  // namespace

void print_classes(const ClassResult& result) {
  if (!print_matrix(result)) print_worst(result);
}

Json per_class_json(const ClassResult& r) {
  Json list = Json::array();
  for (int64_t c = 0; c < r.confusion.classes(); ++c) {
    const int64_t samples = r.confusion.samples(c);
    list.push_back({{"class", r.names[static_cast<size_t>(c)]},
                    {"samples", samples},
                    {"accuracy", samples > 0 ? Json(r.confusion.accuracy(c)) : Json(nullptr)}});
  }
  return list;
}

Json confusion_json(const Confusion& confusion) {
  constexpr int64_t kMostClasses = 4096;
  if (confusion.classes() > kMostClasses) return nullptr;
  Json rows = Json::array();
  for (int64_t a = 0; a < confusion.classes(); ++a) {
    Json row = Json::array();
    for (int64_t p = 0; p < confusion.classes(); ++p) row.push_back(confusion.count(a, p));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace crossbow::cli
