#include "train/checkpoint_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "train/config.h"
#include "train/record_json.h"
#include "train/run_config.h"
#include "train/team_config.h"

namespace crossbow {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 3> kLabelNames{"classes", "sets", "numbers"};

/// Older headers tell sets of classes only.
LabelKind label_from(const json& header) {
  if (!header.contains("labels")) {
    return header.value("label_sets", false) ? LabelKind::class_set : LabelKind::one_class;
  }
  const auto name = header.at("labels").get<std::string>();
  const auto found = std::ranges::find(kLabelNames, name);
  if (found == kLabelNames.end()) fail("its labels are '{}', which is nothing known", name);
  return static_cast<LabelKind>(found - kLabelNames.begin());
}

json shape_json(const Shape& shape) {
  return json(std::vector<int64_t>(shape.begin(), shape.end()));
}

json normalisation_json(const std::optional<Normalisation>& n) {
  return n ? json{{"mean", n->mean}, {"std", n->std}} : json(nullptr);
}

std::optional<Normalisation> normalisation_from(const json& header) {
  const auto n = header.find("normalisation");
  if (n == header.end() || n->is_null()) return {};
  return Normalisation{n->at("mean").get<std::array<float, 3>>(),
                       n->at("std").get<std::array<float, 3>>()};
}

/// That each goes on with a size that it has programs for.
void expect_workers(const EnginePlace& place, const TrainOptions& options) {
  const std::vector<WorkerConfig> workers = written_workers(options);
  const auto algorithm = algorithm_of(options);
  if (place.workers.size() != workers.size()) fail("{} workers", place.workers.size());
  for (size_t w = 0; w < workers.size(); ++w) {
    const int64_t batch = batch_of(options), size = place.workers[w].size;
    const int64_t rows = size <= workers[w].most / batch ? size * batch : 0;
    const std::vector<int64_t> known = step_rows(workers[w], *algorithm);
    if (std::find(known.begin(), known.end(), rows) == known.end()) fail("steps of {} rows", rows);
  }
}

void expect_within_epoch(const Checkpoint& c) {
  const int64_t batch = batch_of(c.options);
  if (batch < 1 || batch > c.samples) fail("{} images in batches of {}", c.samples, batch);
  const int64_t batches = (c.samples - 1) / batch + 1;
  if (c.position.batch > batches) fail("batch {} of {}", c.position.batch, batches);
  if (c.position.batch_rows > std::max(batch, kSparseRowsAtATime)) {
    fail("batches of {} rows", c.position.batch_rows);
  }
  const auto& nodes = c.position.engine.nodes;
  const bool all_held = !nodes.empty() && std::all_of(nodes.begin(), nodes.end(),
                                                      [](const NodeState& n) { return n.held; });
  if (all_held) fail("each node waits for another");
  const bool unlike = has_unlike_workers(c.options.sync);
  if (unlike) expect_workers(c.position.engine, c.options);
  for (const NodeState& node : nodes) {
    const int64_t most = unlike ? c.samples : std::max(batch, kSparseRowsAtATime);
    if (node.rows > most) fail("a step of {} rows", node.rows);
    if (node.stepping && c.position.batch == 0) fail("a step before the epoch's first batch");
  }
}

/// In version 3 a run counted neither the time of its earlier processes nor its changes of
/// learners. Those changes that a resumed run had yet to repeat are not read: it looks for learners
/// anew.
void complete_version3(json& header) {
  json& position = header.at("position");
  position.emplace("wall_seconds", 0);
  position.emplace("changes", 0);
}

/// Until version 4 `sma` was what is sma-paper now, and the rate was that of the learners as they
/// were.
void bring_up_to_date(TrainOptions& options) {
  if (options.sync == "sma") options.sync = "sma-paper";
  if (!is_alone(options)) options.lr_scaling = "none";
  if (!options.loss) options.loss = "cross-entropy";  // there was no other
}

Checkpoint read_header(const json& header, uint32_t version) {
  constexpr size_t kLargestImage = size_t{1} << 32;
  constexpr int64_t kMost = int64_t{1} << 53;
  Checkpoint c;
  apply_config(c.options, header.at("config").get<std::string>(), "its configuration");
  if (version <= 4) bring_up_to_date(c.options);
  c.image = shape_from(header.at("image").get<std::vector<int64_t>>(), kLargestImage);
  if (c.image.rank() != 1 && c.image.rank() != 3) {
    fail("a sample has {} dimensions", c.image.rank());
  }
  c.classes = integer_from(header, "classes", 1, std::numeric_limits<int32_t>::max());
  c.class_names = header.value("class_names", c.class_names);
  c.label = label_from(header);
  c.groups = header.value("groups", c.groups);
  c.group_names = header.value("group_names", c.group_names);
  if (!c.class_names.empty() && static_cast<int64_t>(c.class_names.size()) != c.classes) {
    fail("it names {} of {} classes", c.class_names.size(), c.classes);
  }
  c.normalisation = normalisation_from(header);
  c.samples = integer_from(header, "samples", 1, kMost);
  c.position = position_from_json(header.at("position"));
  expect_within_epoch(c);
  c.history = history_from_json(header.at("history"));
  c.plan = header.at("plan").get<std::map<std::string, std::string>>();
  c.metrics_bytes = integer_from(header, "metrics_bytes", 0, kMost);
  if (header.contains("turns_bytes")) {
    c.turns_bytes = integer_from(header, "turns_bytes", 0, kMost);
  } else if (!c.position.engine.nodes.empty()) {
    c.turns_bytes = c.position.engine.exchanges;  // a byte each
  }
  return c;
}

}  // namespace

std::function<void(int64_t, std::span<float>)> values_at(std::shared_ptr<const FileBytes> file,
                                                         int64_t at) {
  return [file = std::move(file), at](int64_t first, std::span<float> values) {
    file->read(at + first * static_cast<int64_t>(sizeof(float)),
               {reinterpret_cast<uint8_t*>(values.data()), values.size_bytes()});
  };
}

Shape shape_from(const std::vector<int64_t>& dims, size_t limit) {
  if (dims.size() > Shape::kMaxRank) fail("a shape has too many dimensions");
  if (limit < 1) fail("a shape is out of range");
  size_t elements = 1;
  for (const int64_t d : dims) {
    if (d < 1 || static_cast<size_t>(d) > limit / elements) fail("a shape is out of range");
    elements *= static_cast<size_t>(d);
  }
  return Shape(std::span<const int64_t>(dims));
}

json header_of(const Checkpoint& c) {
  return {{"config", to_config(c.options)},
          {"image", shape_json(c.image)},
          {"classes", c.classes},
          {"class_names", c.class_names},
          {"labels", kLabelNames[static_cast<size_t>(c.label)]},
          {"groups", c.groups},
          {"group_names", c.group_names},
          {"normalisation", normalisation_json(c.normalisation)},
          {"samples", c.samples},
          {"position", to_json(c.position)},
          {"history", to_json(c.history)},
          {"plan", c.plan},
          {"metrics_bytes", c.metrics_bytes},
          {"turns_bytes", c.turns_bytes}};
}

Checkpoint from_header(std::string_view text, uint32_t version,
                       const std::function<void(const json&, Checkpoint&)>& add_tensors) {
  try {
    json header = parse_json(text);
    if (version == 3) complete_version3(header);
    Checkpoint checkpoint = read_header(header, version);
    add_tensors(header, checkpoint);
    return checkpoint;
  } catch (const json::exception&) {
    fail("its header is damaged: something is missing, or of the wrong kind");
  } catch (const Error& e) {
    fail("its header is damaged ({})", e.what());
  }
}

}  // namespace crossbow
