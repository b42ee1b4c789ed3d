#include "ops/expect.h"

#include <algorithm>

#include "core/error.h"

namespace crossbow {

void expect_numbers(const TensorType& t, std::string_view what) {
  if (t.dtype != DType::f32) {
    fail("{} {} must hold floating-point numbers, but holds {}", what, t.shape.str(),
         name_of(t.dtype));
  }
  if (std::any_of(t.shape.begin(), t.shape.end(), [](int64_t n) { return n < 1; })) {
    fail("{} {} must have dimensions of at least 1", what, t.shape.str());
  }
}

void expect_rank(const TensorType& t, int rank, std::string_view what, std::string_view form) {
  expect_numbers(t, what);
  if (t.shape.rank() != rank) fail("{} must be {}, not {}", what, form, t.shape.str());
}

void expect_vector(const TensorType& t, int64_t count, std::string_view what, std::string_view of) {
  expect_numbers(t, what);
  if (t.shape != Shape{count}) {
    fail("{} must be [{}], one value for each {}, not {}", what, count, of, t.shape.str());
  }
}

void expect_per_channel(const TensorType& t, const TensorType& x, std::string_view what) {
  if (x.shape.rank() < 2) fail("x must be [N, C, ...], not {}", x.shape.str());
  expect_vector(t, x.shape[1], what, fmt::format("channel of x {}", x.shape.str()));
}

void expect_same_shape(const TensorType& a, const TensorType& b, std::string_view a_name,
                       std::string_view b_name) {
  expect_numbers(a, a_name);
  expect_numbers(b, b_name);
  if (a.shape != b.shape) {
    fail("{} {} and {} {} must have the same shape", a_name, a.shape.str(), b_name, b.shape.str());
  }
}

void expect_labels(const TensorType& labels, const TensorType& rows) {
  if (labels.dtype != DType::i32 || labels.shape != Shape{rows.shape[0]}) {
    fail("labels must be i32 [{}], one for each row of {}, not {} {}", rows.shape[0],
         rows.shape.str(), name_of(labels.dtype), labels.shape.str());
  }
}

}  // namespace crossbow
