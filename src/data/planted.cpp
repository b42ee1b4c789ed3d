// Sets of the shapes of LIBSVM's covtype, w8a and real-sim and of delicious (Tsoumakas et al.
// 2008), for measurements where those are not at hand. Rows are drawn at random, and their classes
// by a logistic model, the planted one, whose loss is told.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.h"
#include "data/parallel.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

struct RowsShape {
  const char *name, *about;
  int64_t train, test, features;
  int numbers = 0;              // features that every row has, in [0, 1)
  std::array<int, 2> groups{};  // features of which every row has one, 1
  int least = 0, most = 0;      // draws among the rest, of which small columns are the likeliest
  bool normalised = false;      // those are positive, and the row has length 1; else they are 1
  int64_t sets_of = 0;          // 0: two classes
  float bias = 0, scale = 1;    // of the planted model

  int64_t classes() const { return sets_of > 0 ? sets_of : 2; }
};

constexpr std::array<RowsShape, 4> kShapes{{
    {.name = "like-covtype",
     .about = "rows of covtype's shape, drawn by the program",
     .train = 522911,
     .test = 58101,
     .features = 54,
     .numbers = 10,
     .groups = {4, 40},
     .scale = 2},
    {.name = "like-w8a",
     .about = "rows of w8a's shape, drawn by the program",
     .train = 49749,
     .test = 14951,
     .features = 300,
     .least = 4,
     .most = 22,
     .bias = -6},
    {.name = "like-real-sim",
     .about = "rows of real-sim's shape, drawn by the program",
     .train = 65079,
     .test = 7230,
     .features = 20958,
     .least = 20,
     .most = 84,
     .normalised = true,
     .bias = -1,
     .scale = 8},
    {.name = "like-delicious",
     .about = "rows of delicious' shape, drawn by the program",
     .train = 12920,
     .test = 3185,
     .features = 500,
     .least = 8,
     .most = 30,
     .sets_of = 983,
     .bias = -5,
     .scale = 0.5f},
}};

/// Streams of random numbers.
enum Stream : uint32_t { train_rows, test_rows, weights };

class Planted {
 public:
  explicit Planted(const RowsShape& shape)
      : shape_(shape), labels_(std::max<int64_t>(shape.sets_of, 1)) {
    Rng rng(0, Purpose::synthetic, weights);
    weights_.resize(static_cast<size_t>(labels_ * shape.features));
    for (float& w : weights_) w = shape.scale * rng.gaussian();
  }

  struct Row {
    std::vector<int32_t> columns, classes;
    std::vector<float> values;
    double loss = 0;  // of the planted model
  };

  Row draw(Stream stream, int64_t i) const {
    Rng rng(0, Purpose::synthetic, stream, static_cast<uint64_t>(i));
    Row row;
    draw_features(rng, row);
    for (int64_t label = 0; label < labels_; ++label) {
      const double x = logit(row, label), p = 1 / (1 + std::exp(-x));
      const bool is = rng.uniform() < p;
      row.loss += (std::log1p(std::exp(-std::abs(x))) + std::max(is ? -x : x, 0.0)) /
                  static_cast<double>(labels_);
      if (shape_.sets_of == 0) row.classes = {is ? 1 : 0};
      if (shape_.sets_of > 0 && is) row.classes.push_back(static_cast<int32_t>(label));
    }
    return row;
  }

 private:
  void draw_features(Rng& rng, Row& row) const {
    int32_t first = 0;
    for (; first < shape_.numbers; ++first) {
      row.columns.push_back(first);
      row.values.push_back(rng.uniform());
    }
    for (const int size : shape_.groups) {
      if (size == 0) continue;
      row.columns.push_back(first + static_cast<int32_t>(rng.below(static_cast<uint32_t>(size))));
      row.values.push_back(1);
      first += size;
    }
    if (shape_.most > 0) draw_rest(rng, first, row);
  }

  void draw_rest(Rng& rng, int32_t first, Row& row) const {
    const int draws =
        shape_.least +
        static_cast<int>(rng.below(static_cast<uint32_t>(shape_.most - shape_.least + 1)));
    const auto features = static_cast<float>(shape_.features - first);
    for (int k = 0; k < draws; ++k) {
      const float u = rng.uniform();
      row.columns.push_back(first + static_cast<int32_t>(u * u * features));
    }
    std::sort(row.columns.begin(), row.columns.end());
    row.columns.erase(std::unique(row.columns.begin(), row.columns.end()), row.columns.end());
    row.values.resize(row.columns.size(), 1);
    if (!shape_.normalised) return;
    float squares = 0;
    for (float& v : row.values) {
      v = 0.1f + rng.uniform();
      squares += v * v;
    }
    for (float& v : row.values) v /= std::sqrt(squares);
  }

  double logit(const Row& row, int64_t label) const {
    const float* const w = weights_.data() + label * shape_.features;
    double x = shape_.bias;
    for (size_t k = 0; k < row.columns.size(); ++k) x += w[row.columns[k]] * row.values[k];
    return x;
  }

  const RowsShape& shape_;
  const int64_t labels_;
  std::vector<float> weights_;  // [labels, features]
};

struct Part {
  std::shared_ptr<const Split> split;
  double loss;
};

Part draw_part(const Planted& planted, const RowsShape& shape, Stream stream, int64_t n,
               const OpenOptions& options) {
  std::vector<Planted::Row> drawn(static_cast<size_t>(n));
  parallel_for(n, options, fmt::format("drawing {}", shape.name),
               [&](int64_t i) { drawn[static_cast<size_t>(i)] = planted.draw(stream, i); });
  Rows rows;
  Labels labels({}, {});
  double loss = 0;
  for (Planted::Row& row : drawn) {
    rows.columns.insert(rows.columns.end(), row.columns.begin(), row.columns.end());
    rows.values.insert(rows.values.end(), row.values.begin(), row.values.end());
    rows.ends.push_back(static_cast<int64_t>(rows.columns.size()));
    labels.classes.insert(labels.classes.end(), row.classes.begin(), row.classes.end());
    if (shape.sets_of > 0) labels.ends.push_back(static_cast<int64_t>(labels.classes.size()));
    loss += row.loss / static_cast<double>(n);
    row = {};
  }
  return {keep_in_memory(std::move(rows), std::move(labels)), loss};
}

template <size_t kIndex>
std::shared_ptr<const Dataset> open_planted(const Path&, const OpenOptions& options) {
  const RowsShape& shape = kShapes[kIndex];
  const Planted planted(shape);
  const Part train = draw_part(planted, shape, train_rows, shape.train, options);
  const Part test = draw_part(planted, shape, test_rows, shape.test, options);
  Info info{.name = shape.name};
  info.image = {shape.features};
  info.classes = shape.classes();
  info.class_names = numbered_classes(info.classes);
  if (shape.sets_of > 0) info.label = LabelKind::class_set;
  info.note = fmt::format(
      "the model that drew the classes of {} has a loss of {:.4f}, and of "
      "{:.4f} on the test rows",
      shape.name, train.loss, test.loss);
  info.room = room_of(*train.split, *test.split, shape.features);
  return std::make_shared<Dataset>(Dataset{std::move(info), train.split, test.split});
}

template <size_t kIndex>
const Source* source() {
  static const Source source{.entry = {.name = kShapes[kIndex].name,
                                       .about = kShapes[kIndex].about,
                                       .image = {kShapes[kIndex].features},
                                       .classes = kShapes[kIndex].classes(),
                                       .train = kShapes[kIndex].train,
                                       .test = kShapes[kIndex].test,
                                       .rows = true},
                             .open = open_planted<kIndex>,
                             .found = [](const Path&) { return true; }};
  return &source;
}

}  // namespace

std::vector<const Source*> planted_sources() {
  return {source<0>(), source<1>(), source<2>(), source<3>()};
}

}  // namespace crossbow::data
