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
  const Arrangement a{value.at("learners").get<int>(), value.at("threads_per_learner").get<int>()};
  if (a.learners < 1 || a.threads < 1) fail("{} learners of {} threads", a.learners, a.threads);
  return a;
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

json to_json(const std::vector<LearnerChange>& changes) {
  json list = json::array();
  for (const LearnerChange& change : changes) list.push_back(to_json(change));
  return list;
}

LearnerChange change_from_json(const json& value) {
  return {value.at("epoch").get<int64_t>(), value.at("batch").get<int64_t>(),
          arrangement_from_json(value), value.at("settled").get<bool>()};
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
  p.logged_loss_sum = value.at("logged_loss_sum").get<double>();
  p.logged_rows = value.at("logged_rows").get<int64_t>();
  if (p.epoch < 0 || p.batch < 0 || p.step < 0 || p.exchanges < 0 || p.since_exchange < 0 ||
      p.logged_rows < 0)
    fail("the position is out of range");
  return p;
}

}  // namespace crossbow
