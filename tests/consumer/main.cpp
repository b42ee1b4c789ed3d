// A program of somebody else's: trains a net of its own on samples of its own, step by step and in
// one call, and a model by its name. Exits 1 if it does not learn.
#include <crossbow/crossbow.h>

#include <cstdio>
#include <string>
#include <vector>

#if __has_include("core/shape.h") || __has_include("shape.h") || \
                                                   __has_include(<crossbow/plan/program.h>) || __has_include("crossbow.h")
#error "headers that are not for programs are on the include path"
#endif

using namespace crossbow;

namespace {

constexpr int kSide = 4, kBatch = 8, kBatches = 8, kClasses = 2;

struct Set {
  std::vector<float> values;
  std::vector<int32_t> labels;
};

/// Images whose left or right half is bright.
Set make_set() {
  Set set;
  for (int i = 0; i < kBatch * kBatches; ++i) {
    const int label = i % kClasses;
    set.labels.push_back(label);
    for (int p = 0; p < kSide * kSide; ++p) {
      const bool bright = (p % kSide < kSide / 2) == (label == 0);
      set.values.push_back(static_cast<float>((i * 7 + p * 3) % 10) / 20 + (bright ? 0.5f : 0.0f));
    }
  }
  return set;
}

Tensor net(Tensor images) {
  Tensor x = relu(batch_norm(conv2d(images, Conv2d{.filters = 4, .padding = 1})));
  return dense(max_pool(x, 2), Dense{.outputs = kClasses});
}

bool expect(bool condition, const char* what) {
  if (!condition) std::fprintf(stderr, "consumer: %s\n", what);
  return condition;
}

bool own_loop(const Set& set) {
  Session session(net, {.image = {1, kSide, kSide}, .classes = kClasses, .batch = kBatch});
  const size_t pixels = set.values.size() / kBatches;
  for (size_t step = 0; step < 4 * kBatches; ++step) {
    const size_t b = step % kBatches;
    session.step({set.values.data() + b * pixels, pixels},
                 {set.labels.data() + b * kBatch, kBatch});
  }
  return expect(session.evaluate(set.values, set.labels).accuracy == 1, "the session misses");
}

bool one_call(const Set& set) {
  const auto dataset = data::from_memory({.image = {1, kSide, kSide}, .classes = kClasses},
                                         {set.values, set.labels}, {set.values, set.labels});
  const TrainResult result =
      train(net, {.dataset = dataset, .batch = kBatch, .learners = 1, .epochs = 4});
  return expect(result.final_test_accuracy == 1, "train() misses");
}

/// Kernels, models and algorithms are found by name, so the linker must have kept them.
bool all_is_there() {
  try {
    Session("lenet", {.image = {1, 28, 28}, .classes = 10, .deterministic = true});
    train({.sync = "no-such-algorithm"});
  } catch (const UsageError& e) {
    return expect(std::string(e.what()).find("local-sgd") != std::string::npos, e.what());
  }
  return expect(false, "nobody missed the algorithm");
}

}  // namespace

int main() {
  const Set set = make_set();
  return own_loop(set) && one_call(set) && all_is_there() ? 0 : 1;
}
