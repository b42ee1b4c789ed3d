#include "train/record_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

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

/// A duration, in seconds or in steps of the virtual clock. The limit keeps sums finite.
double seconds_of(const json& value, const char* key) {
  constexpr double kLongest = 1e300;
  const auto seconds = value.get<double>();
  if (!(seconds >= 0 && seconds <= kLongest)) fail("{} is out of range", key);
  return seconds;
}

double seconds_from(const json& object, const char* key) {
  return seconds_of(object.at(key), key);
}

std::vector<double> all_seconds_from(const json& object, const char* key) {
  std::vector<double> all;
  for (const json& value : object.at(key)) all.push_back(seconds_of(value, key));
  return all;
}

/// More than any machine has.
constexpr int64_t kMostThreads = 4096;
constexpr int64_t kMostEpochs = 1000000000, kMostSteps = int64_t{1} << 53;

Arrangement arrangement_from_json(const json& value) {
  return {static_cast<int>(integer_from(value, "learners", 1, kMostThreads)),
          static_cast<int>(integer_from(value, "threads_per_learner", 1, kMostThreads))};
}

EpochRecord record_from_json(const json& value) {
  EpochRecord r;
  r.epoch = integer_from(value, "epoch", 1, kMostEpochs);
  r.train_loss = value.at("train_loss").get<double>();
  r.test_loss = optional_number(value.at("test_loss"));
  r.test_accuracy = optional_number(value.at("test_accuracy"));
  r.seconds = seconds_from(value, "seconds");
  r.images_per_second = value.at("images_per_second").get<double>();
  r.learners = integer_from(value, "learners", 1, kMostThreads);
  const auto measured = [&](const char* key) -> std::optional<double> {
    return value.contains(key) ? optional_number(value.at(key)) : std::nullopt;
  };
  r.test_top5 = measured("test_top5");
  r.test_auc = measured("test_auc");
  r.test_rmse = measured("test_rmse");
  if (r.test_loss && !r.test_accuracy && !r.test_rmse) fail("a test has a loss alone");
  r.noise_scale = measured("noise_scale");
  r.efficiency = measured("efficiency");
  r.goodput = measured("goodput");
  r.distance = measured("distance");
  r.virtual_time = measured("virtual_time");
  r.virtual_seconds = measured("virtual_seconds");
  return r;
}

json to_json(const RateFactor& f) {
  return {{"from", f.from}, {"to", f.to}, {"start", f.start}, {"length", f.length}};
}

RateFactor rate_factor_from(const json& value) {
  const auto factor = [&](const char* key) {
    const auto number = value.at(key).get<double>();
    if (!(number > 0 && number <= 1e6)) fail("{} is no factor of a rate", key);
    return number;
  };
  return {factor("from"), factor("to"), integer_from(value, "start", 0, kMostSteps),
          integer_from(value, "length", 0, kMostSteps)};
}

json to_json(const NoiseScale& n) {
  return {{"noise", n.noise}, {"signal", n.signal}, {"measurements", n.measurements}};
}

NoiseScale noise_from(const json& value) {
  return {value.at("noise").get<double>(), value.at("signal").get<double>(),
          integer_from(value, "measurements", 0, kMostSteps)};
}

json lane_json(const CardLane& lane) {
  json bookings = json::array();
  for (const CardLane::Booking& b : lane.bookings) bookings.push_back({b.begin, b.end});
  return bookings;
}

CardLane lane_from(const json& value) {
  CardLane lane;
  double last = 0;
  for (const json& booking : value) {
    const auto [begin, end] = booking.get<std::array<double, 2>>();
    if (!(begin >= last && end >= begin && std::isfinite(end))) fail("a card's messages overlap");
    lane.bookings.push_back({begin, last = end});
  }
  return lane;
}

json card_json(const Card& card) {
  return {{"out", lane_json(card.out)}, {"in", lane_json(card.in)}};
}

Card card_from(const json& value) {
  return {lane_from(value.at("out")), lane_from(value.at("in"))};
}

json letters_json(const NodeNumbers& numbers) {
  json letters = json::array();
  for (const Letter& letter : numbers.letters) {
    letters.push_back({letter.to, letter.arrives, letter.mass});
  }
  return letters;
}

/// Of one of so many nodes.
void read_letters(const json& value, int64_t nodes, NodeNumbers& numbers) {
  if (value.size() != numbers.letters.size()) fail("a node has {} letters", value.size());
  for (size_t l = 0; l < numbers.letters.size(); ++l) {
    const auto [to, arrives, mass] = value[l].get<std::tuple<int, double, double>>();
    const bool sound = to >= -1 && to < nodes && arrives >= 0 && mass >= 0;
    if (!sound || !std::isfinite(arrives + mass)) fail("a letter is out of range");
    numbers.letters[l] = {to, arrives, mass};
  }
}

json state_json(const NodeState& s) {
  const NodeReport& r = s.report;
  return {{"time", s.time},
          {"stepping", s.stepping},
          {"held", s.held},
          {"failed", s.failed},
          {"lr", s.lr},
          {"rows", s.rows},
          {"epoch_updates", s.epoch_updates},
          {"updates_before", s.updates_before},
          {"steps", s.numbers.steps},
          {"mass", s.numbers.mass},
          {"messages", s.numbers.inbox.messages},
          {"message_mass", s.numbers.inbox.mass},
          {"card", card_json(s.numbers.card)},
          {"letters", letters_json(s.numbers)},
          {"sent", s.numbers.sent},
          {"updates", r.updates},
          {"all_rows", r.rows},
          {"busy", r.busy},
          {"waiting", r.waiting},
          {"staleness", r.staleness},
          {"largest_staleness", r.largest_staleness}};
}

/// One of so many.
NodeState node_from(const json& value, int64_t nodes) {
  const auto count = [&](const char* key) { return integer_from(value, key, 0, kMostSteps); };
  NodeState s;
  s.time = seconds_from(value, "time");
  s.stepping = value.at("stepping").get<bool>();
  s.held = value.at("held").get<bool>();
  s.lr = value.at("lr").get<double>();
  s.failed = value.value("failed", false);  // absent where no node could fail yet
  if (s.held + s.stepping + s.failed > 1) fail("a node does one thing at a time");
  if (!(s.lr >= 0)) fail("lr is below 0");
  s.rows = count("rows");
  s.updates_before = count("updates_before");
  s.epoch_updates = count("epoch_updates");
  s.numbers = {count("steps"),
               value.at("mass").get<double>(),
               {count("messages"), value.at("message_mass").get<double>()},
               {},
               {},
               0};
  if (value.contains("card")) {  // absent where there was no network yet
    s.numbers.card = card_from(value.at("card"));
    read_letters(value.at("letters"), nodes, s.numbers);
    s.numbers.sent = count("sent");
  }
  if (!(s.numbers.mass >= 0)) fail("mass is below 0");
  s.report = {count("updates"),
              count("all_rows"),
              seconds_from(value, "busy"),
              seconds_from(value, "waiting"),
              count("staleness"),
              count("largest_staleness")};
  return s;
}

json state_json(const WorkerState& s) {
  return {{"size", s.size},   {"updates", s.updates}, {"steps", s.steps},
          {"least", s.least}, {"most", s.most},       {"repeated", s.repeated}};
}

WorkerState worker_from(const json& value) {
  const auto count = [&](const char* key) { return integer_from(value, key, 0, kMostSteps); };
  WorkerState s{count("size"),  value.at("updates").get<double>(),
                count("steps"), count("least"),
                count("most"),  count("repeated")};
  if (!(s.updates >= 0)) fail("updates is below 0");
  return s;
}

/// Of nodes of which so many are left.
std::vector<LostNode> lost_from(const json& value, int64_t left) {
  const int64_t all = left + static_cast<int64_t>(value.size());
  if (all > kMostThreads) fail("{} nodes are more than a run has", all);
  std::vector<bool> is_lost(static_cast<size_t>(all));
  std::vector<LostNode> lost;
  for (const json& node : value) {
    const auto number = static_cast<int>(integer_from(node, "node", 0, all - 1));
    const auto at = static_cast<size_t>(number);
    if (is_lost[at]) fail("node {} was lost twice", number);
    is_lost[at] = true;
    lost.push_back({number, seconds_from(node, "virtual_seconds")});
  }
  return lost;
}

}  // namespace

int64_t integer_from(const json& object, const char* key, int64_t least, int64_t most) {
  const json& value = object.at(key);
  if (!value.is_number_integer()) fail("{} is not a whole number", key);
  const auto number = value.get<int64_t>();
  if (number < least || number > most) fail("{} is not in {} to {}", key, least, most);
  return number;
}

json to_json(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const EpochRecord& r) {
  json j{{"epoch", r.epoch},
         {"train_loss", r.train_loss},
         {"test_loss", to_json(r.test_loss)},
         {"test_accuracy", to_json(r.test_accuracy)},
         {"test_top5", to_json(r.test_top5)},
         {"test_auc", to_json(r.test_auc)},
         {"seconds", r.seconds},
         {"images_per_second", r.images_per_second},
         {"learners", r.learners},
         {"noise_scale", to_json(r.noise_scale)},
         {"efficiency", to_json(r.efficiency)},
         {"goodput", to_json(r.goodput)},
         {"distance", to_json(r.distance)},
         {"virtual_time", to_json(r.virtual_time)}};
  if (r.test_rmse) j["test_rmse"] = *r.test_rmse;
  if (r.virtual_seconds) j["virtual_seconds"] = *r.virtual_seconds;
  return j;
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
  return {integer_from(value, "epoch", 0, kMostEpochs), integer_from(value, "batch", 0, kMostSteps),
          arrangement_from_json(value), value.at("settled").get<bool>()};
}

json to_json(const std::vector<NodeState>& nodes) {
  json list = json::array();
  for (size_t j = 0; j < nodes.size(); ++j) {
    const NodeReport& r = nodes[j].report;
    list.push_back({{"node", j},
                    {"updates", r.updates},
                    {"rows", r.rows},
                    {"busy_seconds", r.busy},
                    {"waiting_seconds", r.waiting},
                    {"staleness_mean", r.mean_staleness()},
                    {"staleness_max", r.largest_staleness},
                    {"messages", nodes[j].numbers.sent},
                    {"failed", nodes[j].failed}});
  }
  return list;
}

json to_json(const std::vector<LostNode>& lost) {
  json list = json::array();
  for (const LostNode& l : lost) list.push_back({{"node", l.node}, {"virtual_seconds", l.seconds}});
  return list;
}

json to_json(const std::vector<WorkerReport>& workers) {
  json list = json::array();
  for (size_t w = 0; w < workers.size(); ++w) {
    const WorkerReport& r = workers[w];
    list.push_back({{"worker", w},
                    {"kind", r.kind},
                    {"device", r.device},
                    {"updates", r.updates},
                    {"rows", r.rows},
                    {"batch", r.batch},
                    {"batch_min", r.batch_min},
                    {"batch_max", r.batch_max},
                    {"repeated_rows", r.repeated_rows},
                    {"busy_fraction", r.busy_fraction},
                    {"failed", r.failed()}});
  }
  return list;
}

json to_json(const Position& p) {
  json nodes = json::array(), workers = json::array();
  for (const NodeState& node : p.engine.nodes) nodes.push_back(state_json(node));
  for (const WorkerState& worker : p.engine.workers) workers.push_back(state_json(worker));
  return {{"epoch", p.epoch},
          {"batch", p.batch},
          {"batch_rows", p.batch_rows},
          {"arrangement", to_json(p.arrangement)},
          {"ranks", p.ranks},
          {"settled", p.settled},
          {"step", p.step},
          {"open_batches", p.open_batches},
          {"open_loss_sum", p.open_loss_sum},
          {"exchanges", p.engine.exchanges},
          {"since_exchange", p.engine.since_exchange},
          {"joined", p.engine.joined},
          {"nodes", std::move(nodes)},
          {"workers", std::move(workers)},
          {"virtual_time", p.engine.virtual_time},
          {"virtual_steps", p.engine.virtual_steps},
          {"virtual_ends", p.engine.virtual_ends},
          {"virtual_exchange", p.engine.virtual_exchange},
          {"lost_nodes", to_json(p.engine.lost)},
          {"server_card", card_json(p.engine.server)},
          {"rate_factor", to_json(p.rate_factor)},
          {"noise", to_json(p.engine.noise)},
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
  p.epoch = integer_from(value, "epoch", 0, kMostEpochs);
  p.batch = integer_from(value, "batch", 0, kMostSteps);
  if (value.contains("batch_rows")) {
    p.batch_rows = integer_from(value, "batch_rows", 0, kMostSteps);
  }
  p.arrangement = arrangement_from_json(value.at("arrangement"));
  if (value.contains("ranks")) p.ranks = integer_from(value, "ranks", 1, kMostThreads);
  p.settled = value.at("settled").get<bool>();
  p.step = integer_from(value, "step", 0, kMostSteps);
  p.engine.exchanges = integer_from(value, "exchanges", 0, kMostSteps);
  p.engine.since_exchange = integer_from(value, "since_exchange", 0, kMostSteps);
  if (value.contains("joined")) p.engine.joined = integer_from(value, "joined", 0, kMostSteps);
  if (value.contains("nodes")) {
    const json& nodes = value.at("nodes");
    for (const json& node : nodes) {
      p.engine.nodes.push_back(node_from(node, static_cast<int64_t>(nodes.size())));
    }
    if (value.contains("server_card")) p.engine.server = card_from(value.at("server_card"));
    if (!p.engine.nodes.empty() && std::ranges::all_of(p.engine.nodes, &NodeState::failed)) {
      fail("all nodes have failed");
    }
    p.engine.virtual_time = seconds_from(value, "virtual_time");
    p.engine.virtual_steps = integer_from(value, "virtual_steps", 0, kMostSteps);
  }
  if (value.contains("virtual_ends")) {
    p.engine.virtual_ends = all_seconds_from(value, "virtual_ends");
    p.engine.virtual_exchange = seconds_from(value, "virtual_exchange");
  }
  if (value.contains("lost_nodes")) {
    p.engine.lost = lost_from(value.at("lost_nodes"), p.arrangement.learners);
  }
  if (value.contains("open_batches")) {
    const int64_t others = std::max<int64_t>(1, std::ssize(p.engine.nodes)) - 1;
    p.open_batches = integer_from(value, "open_batches", 0, std::min(p.batch, others));
    p.open_loss_sum = value.at("open_loss_sum").get<double>();
  }
  if (value.contains("workers")) {
    for (const json& worker : value.at("workers")) {
      p.engine.workers.push_back(worker_from(worker));
    }
  }
  for (const NodeState& node : p.engine.nodes) {  // those of workers may have none yet
    if (node.numbers.mass == 0 && p.engine.workers.empty()) fail("mass is not above 0");
  }
  if (value.contains("rate_factor")) p.rate_factor = rate_factor_from(value.at("rate_factor"));
  if (value.contains("noise")) p.engine.noise = noise_from(value.at("noise"));
  p.loss_sum = value.at("loss_sum").get<double>();
  p.seconds = seconds_from(value, "seconds");
  p.waiting_seconds = seconds_from(value, "waiting_seconds");
  p.wall_seconds = seconds_from(value, "wall_seconds");
  p.changes = integer_from(value, "changes", 0, kMostSteps);
  p.logged_loss_sum = value.at("logged_loss_sum").get<double>();
  p.logged_rows = integer_from(value, "logged_rows", 0, kMostSteps);
  return p;
}

}  // namespace crossbow
