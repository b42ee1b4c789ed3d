// The checkpoint's bytes.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/record_json.h"
#include "train/run_config.h"
#include "train/team_config.h"

namespace crossbow {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view kMagic = "CROSSBOW";
constexpr uint32_t kVersion = 5, kOldest = 4;
constexpr int64_t kPrologue = 16;  // magic, version, header length
constexpr std::array<std::string_view, 6> kRoles = {"parameter", "state",         "weights",
                                                    "slot",      "learner_state", "central"};

constexpr int64_t kPiece = 1 << 18;  // bytes

uint32_t checksum(std::span<const uint8_t> bytes, uint32_t before) {
  return static_cast<uint32_t>(crc32_z(before, bytes.data(), bytes.size()));
}

std::span<uint8_t> bytes_of(std::span<float> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size_bytes()};
}

template <typename T>
std::span<const uint8_t> bytes_of(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

uint32_t read_u32(const FileBytes& file, int64_t at) {
  std::array<uint8_t, 4> bytes;
  file.read(at, bytes);
  return std::bit_cast<uint32_t>(bytes);
}

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

/// Sizes at least 1 whose product is at most `limit`: what follows may multiply them freely.
Shape shape_from(const json& value, size_t limit) {
  const auto dims = value.get<std::vector<int64_t>>();
  if (dims.size() > Shape::kMaxRank) fail("a shape has too many dimensions");
  size_t elements = 1;
  for (const int64_t d : dims) {
    if (d < 1 || static_cast<size_t>(d) > limit / elements) fail("a shape is out of range");
    elements *= static_cast<size_t>(d);
  }
  return Shape(std::span<const int64_t>(dims));
}

json normalisation_json(const std::optional<data::Normalisation>& n) {
  return n ? json{{"mean", n->mean}, {"std", n->std}} : json(nullptr);
}

std::optional<data::Normalisation> normalisation_from(const json& header) {
  const auto n = header.find("normalisation");
  if (n == header.end() || n->is_null()) return {};
  return data::Normalisation{n->at("mean").get<std::array<float, 3>>(),
                             n->at("std").get<std::array<float, 3>>()};
}

json header_of(const Checkpoint& c) {
  json tensors = json::array();
  for (const auto& t : c.tensors) {
    tensors.push_back({{"name", t.name},
                       {"role", kRoles[static_cast<size_t>(t.role)]},
                       {"index", t.index},
                       {"shape", shape_json(t.shape)}});
    if (t.role == Checkpoint::Role::slot) tensors.back()["slot"] = t.slot;
  }
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
          {"tensors", std::move(tensors)}};
}

/// Older checkpoints have the one slot that there was as "momentum", and the one that all learners
/// of ssgd share as the central model's.
bool is_momentum(std::string_view role, const TrainOptions& options) {
  return role == "momentum" || (role == "central" && options.sync == "ssgd");
}

/// `at` is where in the file its values begin; moves on to where they end.
Checkpoint::StoredTensor read_stored_tensor(const json& entry, const TrainOptions& options,
                                            const std::shared_ptr<const FileBytes>& file,
                                            int64_t& at, int64_t end) {
  Checkpoint::StoredTensor t;
  t.name = entry.at("name").get<std::string>();
  auto role = entry.at("role").get<std::string>();
  if (is_momentum(role, options)) {
    role = "slot";
    t.slot = "momentum";
  } else if (role == "slot") {
    t.slot = entry.at("slot").get<std::string>();
  }
  const auto known = std::find(kRoles.begin(), kRoles.end(), role);
  if (known == kRoles.end()) fail("the tensor {} has an unknown role", t.name);
  t.role = static_cast<Checkpoint::Role>(known - kRoles.begin());
  t.index = integer_from(entry, "index", 0, std::numeric_limits<int32_t>::max());
  t.shape = shape_from(entry.at("shape"), static_cast<size_t>(end - at) / sizeof(float));
  t.read = [file, at](int64_t first, std::span<float> values) {
    file->read(at + first * static_cast<int64_t>(sizeof(float)), bytes_of(values));
  };
  at += t.shape.elements() * static_cast<int64_t>(sizeof(float));
  return t;
}

/// That each goes on with a size that it has programs for.
void expect_workers(const EnginePlace& place, const TrainOptions& options) {
  const std::vector<WorkerConfig> workers = workers_of(options);
  const auto algorithm = algorithm_of(options);
  if (place.workers.size() != workers.size()) fail("{} workers", place.workers.size());
  for (size_t w = 0; w < workers.size(); ++w) {
    const int64_t rows = place.workers[w].size * batch_of(options);
    const std::vector<int64_t> known = step_rows(workers[w], *algorithm);
    if (std::find(known.begin(), known.end(), rows) == known.end()) fail("steps of {} rows", rows);
  }
}

void expect_within_epoch(const Checkpoint& c) {
  const int64_t batch = batch_of(c.options);
  if (batch < 1 || batch > c.samples) fail("{} images in batches of {}", c.samples, batch);
  const int64_t batches = (c.samples - 1) / batch + 1;
  if (c.position.batch > batches) fail("batch {} of {}", c.position.batch, batches);
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

/// In version 4 `sma` was what is sma-paper now, and the rate was that of the learners as they
/// were.
void bring_up_to_date(TrainOptions& options) {
  if (options.sync == "sma") options.sync = "sma-paper";
  if (!is_alone(options)) options.lr_scaling = "none";
  if (!options.loss) options.loss = "cross-entropy";  // there was no other
}

/// The tensors' values lie in `file` from `at` to `end`.
Checkpoint from_header(const json& header, const FileBytes& file, int64_t at, int64_t end) {
  const bool is_old = read_u32(file, 8) == kOldest;
  constexpr size_t kLargestImage = size_t{1} << 32;
  constexpr int64_t kMost = int64_t{1} << 53;
  Checkpoint c;
  apply_config(c.options, header.at("config").get<std::string>(), "its configuration");
  if (is_old) bring_up_to_date(c.options);
  c.image = shape_from(header.at("image"), kLargestImage);
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
  const auto kept = std::make_shared<const FileBytes>(file);
  for (const json& entry : header.at("tensors")) {
    c.tensors.push_back(read_stored_tensor(entry, c.options, kept, at, end));
  }
  if (at != end) fail("{} bytes follow the last tensor", end - at);
  return c;
}

void expect_ours(const FileBytes& file, int64_t end) {
  std::array<uint8_t, kMagic.size()> magic{};
  if (end >= kPrologue) file.read(0, magic);
  if (!std::equal(magic.begin(), magic.end(), kMagic.begin())) {
    fail("it is not a checkpoint of crossbow");
  }
  const uint32_t version = read_u32(file, 8);
  if (version < kOldest || version > kVersion) {
    fail("it has format version {}, this program reads {} to {}", version, kOldest, kVersion);
  }
}

/// Of a file that ends, but for its checksum, at `end`.
Checkpoint decode_unchecked(const FileBytes& file, int64_t end) {
  const int64_t length = read_u32(file, 12);
  if (length > end - kPrologue) fail("its header is longer than the file");
  std::string text(static_cast<size_t>(length), '\0');
  file.read(kPrologue, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  try {
    return from_header(parse_json(text), file, kPrologue + length, end);
  } catch (const json::exception&) {
    fail("its header is damaged: something is missing, or of the wrong kind");
  } catch (const Error& e) {
    fail("its header is damaged ({})", e.what());
  }
}

int64_t end_of(const FileBytes& file) {
  return file.size - static_cast<int64_t>(sizeof(uint32_t));
}

}  // namespace

uint32_t checksum(const FileBytes& file, int64_t size) {
  std::vector<uint8_t> buffer(static_cast<size_t>(std::min(size, kPiece)));
  uint32_t crc = 0;
  for (int64_t at = 0; at < size; at += kPiece) {
    const auto piece = std::span(buffer).first(static_cast<size_t>(std::min(kPiece, size - at)));
    file.read(at, piece);
    crc = checksum(piece, crc);
  }
  return crc;
}

void encode(const Checkpoint& checkpoint,
            const std::function<void(std::span<const uint8_t>)>& write) {
  uint32_t crc = 0;
  const auto put = [&](std::span<const uint8_t> bytes) {
    crc = checksum(bytes, crc);
    write(bytes);
  };
  constexpr auto kReplace = json::error_handler_t::replace;  // what is no UTF-8
  const std::string header = header_of(checkpoint).dump(-1, ' ', false, kReplace);
  std::string start(kMagic);
  for (const uint32_t number : {kVersion, static_cast<uint32_t>(header.size())}) {
    start.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  start += header;
  put({reinterpret_cast<const uint8_t*>(start.data()), start.size()});
  std::vector<float> buffer;
  for (const auto& t : checkpoint.tensors) {
    constexpr int64_t kValues = kPiece / static_cast<int64_t>(sizeof(float));
    for (int64_t first = 0; first < t.shape.elements(); first += kValues) {
      buffer.resize(static_cast<size_t>(std::min(kValues, t.shape.elements() - first)));
      t.read(first, buffer);
      put(bytes_of(std::span(buffer)));
    }
  }
  write(bytes_of(crc));
}

Checkpoint decode(const FileBytes& file) {
  const int64_t end = end_of(file);
  expect_ours(file, end);
  if (read_u32(file, end) != checksum(file, end)) {
    fail("its checksum does not match: it is cut short or damaged");
  }
  return decode_unchecked(file, end);
}

Checkpoint decode_header(const FileBytes& file) {
  const int64_t end = end_of(file);
  expect_ours(file, end);
  return decode_unchecked(file, end);
}

}  // namespace crossbow
