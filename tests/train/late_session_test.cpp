// A session on an asynchronous device gives what it gives on the CPU.
#include <gtest/gtest.h>

#include "support/late_device.h"
#include "train/session.h"
#include "train/tiny_run.h"

namespace crossbow::testing {
namespace {

/// All that a session says: losses, test results, logits, and its tensors.
std::vector<float> said(const TinyData& data, SessionOptions o, const std::string& device) {
  o.data = data.spec();
  o.device = device;
  o.threads_per_learner = 1;
  o.deterministic = true;
  Session session(tiny_net, o);
  const SessionTensor first = session.tensors().front();
  std::vector<float> values(static_cast<size_t>(first.shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 9);
  session.set(first.name, values);

  const auto weights = [&] {
    std::vector<float> all;
    for (const SessionTensor& tensor : session.tensors()) {
      const std::vector<float> more = session.get(tensor.name);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  std::vector<float> all;
  const auto step = [&] { all.push_back(session.step()); };
  for (int i = 0; i < 3; ++i) step();
  const data::TemporaryFolder saved;
  session.save(saved.path());
  const std::vector<float> when_saved = weights();
  for (int i = 0; i < 3; ++i) step();
  const Evaluation ahead = session.evaluate();
  session.load(saved.path());
  EXPECT_EQ(weights(), when_saved) << device;
  for (int i = 0; i < 3; ++i) step();
  const Evaluation test = session.evaluate();
  for (const double x : {ahead.loss, *ahead.accuracy, test.loss, *test.accuracy}) {
    all.push_back(static_cast<float>(x));
  }
  const auto add = [&](const std::vector<float>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add(session.predict(std::vector<float>(size_t{5} * 8 * 8, 0.5f)));
  add(weights());
  return all;
}

TEST(LateSession, IsTheCpusSession) {
  const TinyData data;
  for (const auto pace : {LateOptions::Pace::last_moment, LateOptions::Pace::random}) {
    const WithLateOptions late({.pace = pace});
    EXPECT_EQ(said(data, {}, "cpu"), said(data, {}, "late"));
    EXPECT_EQ(said(data, {.clip_norm = 0.1}, "cpu"), said(data, {.clip_norm = 0.1}, "late"));
  }
}

/// Of which training keeps so many activations that a test of more rows needs a smaller arena.
Tensor deep_net(Tensor images) {
  Tensor x = images;
  for (int i = 0; i < 16; ++i) x = sigmoid(dense(x, Dense{.outputs = 64}));
  return dense(x, Dense{.outputs = 10});
}

TEST(LateSession, TestsOnMoreRowsThanItTrainsOn) {
  const TinyData data;
  std::vector<double> losses;
  for (const char* device : {"cpu", "late"}) {
    SessionOptions o;
    o.data = data.spec();
    o.device = device;
    o.threads_per_learner = 1;
    o.batch = 8;
    Session session(deep_net, o);
    session.step();
    losses.push_back(session.evaluate().loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace crossbow::testing
