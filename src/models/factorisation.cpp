// Matrix factorisation with biases (Koren, Bell & Volinsky, "Matrix factorization techniques for
// recommender systems", 2009): a rating is about b + b_u + b_i + p_u · q_i.
#include "core/error.h"
#include "models/layers.h"
#include "models/model.h"
#include "models/options.h"
#include "ops/elementwise.h"
#include "ops/row_dot.h"
#include "ops/scale_bias.h"
#include "ops/sparse_rows.h"

namespace crossbow {
namespace {

struct Factors {
  Tensor vector, bias;  // [N, rank], [N, 1]
};

Tensor rating(Tensor x, const ModelSpec& spec) {
  ModelOptions options("factorisation", spec.options);
  const int64_t rank = options.integer("rank", 32, 1, 65536);
  const auto decay = static_cast<float>(options.number("decay", 0.05, 0, 1e6));
  options.finish();
  if (spec.groups.size() != 2 || !sparse_shape(x)) {
    fail_usage(
        "the model 'factorisation' learns ratings of items by users: choose data such as "
        "ratings:FILE or like-movielens");
  }
  const auto factors_of = [&](const std::string& name, int64_t first, int64_t count) -> Factors {
    const Tensor columns = column_slice(x, first, count, name);
    const Initialiser small = Initialiser::gaussian(0, 0.1f), zero = Initialiser::constant(0);
    const auto decayed = [&](int64_t outputs, Initialiser init, const char* part) {
      const Dense layer{.outputs = outputs, .bias = false, .weight_init = init};
      return row_decay(dense(columns, layer, name + part), decay);
    };
    return {decayed(rank, small, "_factors"), decayed(1, zero, "_bias")};
  };
  const auto [users, items] = std::array{spec.groups[0], spec.groups[1]};
  const Factors user = factors_of("user", 0, users), item = factors_of("item", users, items);
  const Tensor sum = add(row_dot(user.vector, item.vector), add(user.bias, item.bias));
  const Tensor bias = parameter(*x.graph, {1}, Initialiser::constant(0), "bias");
  return scale_bias(sum, {}, bias);
}

const Recipe kRecipe{.data = "like-movielens",
                     .epochs = 20,
                     .loss = "mse",
                     .lr = 0.1,
                     .lr_schedule = "cosine",
                     .momentum = 0};

const RegisterModel kFactorisation({
    .name = "factorisation",
    .summary = "matrix factorisation of ratings: biases, and vectors of users and items",
    .default_image = {943 + 1682},
    .default_classes = 1,
    .default_groups = {943, 1682},
    .recipe = kRecipe,
    .options_help = "rank=32, decay=0.05 (of the rows that a batch reads)",
    .logits = rating,
    .sparse_rows = true,
});

}  // namespace
}  // namespace crossbow
