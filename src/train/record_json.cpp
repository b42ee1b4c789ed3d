#include "train/record_json.h"

#include "core/error.h"

namespace crossbow {

using nlohmann::json;

namespace {

std::optional<double> optional_number(const json& value) {
  if (value.is_null()) return {};
  return value.get<double>();
}

json to_json(const Arrangement& a) {
  return {{"learners", a.learners}, {"threads_per_learner", a.threads}};
}

Arrangement arrangement_from_json(const json& value) {
  constexpr int64_t kMost = 1024;  // the cores of the largest machine
  const auto learners = value.at("learners").get<int64_t>();
  const auto threads = value.at("threads_per_learner").get<int64_t>();
  if (learners < 1 || threads < 1 || learners > kMost || threads > kMost) {
    fail("{} learners of {} threads are out of range", learners, threads);
  }
  return {static_cast<int>(learners), static_cast<int>(threads)};
}

EpochRecord record_from_json(const json& value) {
  EpochRecord r;
  r.epoch = value.at("epoch").get<int64_t>();
  r.train_loss = value.at("train_loss").get<double>();
  r.test_loss = optional_number(value.at("test_loss"));
  r.test_accuracy = optional_number(value.at("test_accuracy"));
  r.seconds = value.at("seconds").get<double>();
  r.images_per_second = value.at("images_per_second").get<double>();
  r.learners = value.at("learners").get<int64_t>();
  return r;
}

}  // namespace

json to_json(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const EpochRecord& r) {
  return {{"epoch", r.epoch},
          {"train_loss", r.train_loss},
          {"test_loss", to_json(r.test_loss)},
          {"test_accuracy", to_json(r.test_accuracy)},
          {"seconds", r.seconds},
          {"images_per_second", r.images_per_second},
          {"learners", r.learners}};
}

json to_json(const std::vector<EpochRecord>& history) {
  json list = json::array();
  for (const EpochRecord& record : history) list.push_back(to_json(record));
  return list;
}

json to_json(const LearnerChange& change) {
  json j = to_json(change.arrangement);
  j["epoch"] = change.epoch;
  j["batch"] = change.batch;
  j["settled"] = change.settled;
  return j;
}

LearnerChange change_from_json(const json& value) {
  const LearnerChange c{value.at("epoch").get<int64_t>(), value.at("batch").get<int64_t>(),
                        arrangement_from_json(value), value.at("settled").get<bool>()};
  if (c.epoch < 0 || c.batch < 0) fail("epoch {}, batch {} is no place in a run", c.epoch, c.batch);
  return c;
}

json to_json(const Position& p) {
  return {{"epoch", p.epoch},
          {"batch", p.batch},
          {"arrangement", to_json(p.arrangement)},
          {"settled", p.settled},
          {"step", p.step},
          {"exchanges", p.exchanges},
          {"since_exchange", p.since_exchange},
          {"loss_sum", p.loss_sum},
          {"seconds", p.seconds},
          {"waiting_seconds", p.waiting_seconds},
          {"wall_seconds", p.wall_seconds},
          {"changes", p.changes},
          {"logged_loss_sum", p.logged_loss_sum},
          {"logged_rows", p.logged_rows}};
}

std::vector<EpochRecord> history_from_json(const json& value) {
  std::vector<EpochRecord> history;
  for (const json& record : value) history.push_back(record_from_json(record));
  return history;
}

Position position_from_json(const json& value) {
  Position p;
  p.epoch = value.at("epoch").get<int64_t>();
  p.batch = value.at("batch").get<int64_t>();
  p.arrangement = arrangement_from_json(value.at("arrangement"));
  p.settled = value.at("settled").get<bool>();
  p.step = value.at("step").get<int64_t>();
  p.exchanges = value.at("exchanges").get<int64_t>();
  p.since_exchange = value.at("since_exchange").get<int64_t>();
  p.loss_sum = value.at("loss_sum").get<double>();
  p.seconds = value.at("seconds").get<double>();
  p.waiting_seconds = value.at("waiting_seconds").get<double>();
  p.wall_seconds = value.at("wall_seconds").get<double>();
  p.changes = value.at("changes").get<int64_t>();
  p.logged_loss_sum = value.at("logged_loss_sum").get<double>();
  p.logged_rows = value.at("logged_rows").get<int64_t>();
  if (p.epoch < 0 || p.batch < 0 || p.step < 0 || p.exchanges < 0 || p.since_exchange < 0 ||
      p.changes < 0 || p.logged_rows < 0)
    fail("the position is out of range");
  return p;
}

}  // namespace crossbow
