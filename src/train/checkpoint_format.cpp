// The checkpoint's bytes.
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <istream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/record_json.h"

namespace crossbow {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view kMagic = "CROSSBOW";
constexpr uint32_t kVersion = 4;
constexpr size_t kPrologue = 16;  // magic, version, header length
constexpr std::array<std::string_view, 6> kRoles = {"parameter", "state",         "weights",
                                                    "momentum",  "learner_state", "central"};

uint32_t checksum(std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), bytes.data(), bytes.size()));
}

uint32_t read_u32(std::span<const uint8_t> bytes, size_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void append(std::vector<uint8_t>& out, const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  out.insert(out.end(), p, p + bytes);
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

json header_of(const Checkpoint& c) {
  json tensors = json::array();
  for (const auto& t : c.tensors) {
    tensors.push_back({{"name", t.name},
                       {"role", kRoles[static_cast<size_t>(t.role)]},
                       {"index", t.index},
                       {"shape", shape_json(t.shape)}});
  }
  return {{"config", to_config(c.options)},
          {"image", shape_json(c.image)},
          {"classes", c.classes},
          {"class_names", c.class_names},
          {"normalisation", normalisation_json(c.normalisation)},
          {"samples", c.samples},
          {"position", to_json(c.position)},
          {"history", to_json(c.history)},
          {"plan", c.plan},
          {"metrics_bytes", c.metrics_bytes},
          {"tensors", std::move(tensors)}};
}

/// Without its values, of which no more than `limit` can follow.
Checkpoint::StoredTensor described_tensor(const json& entry, size_t limit) {
  Checkpoint::StoredTensor t;
  t.name = entry.at("name").get<std::string>();
  const auto role = std::find(kRoles.begin(), kRoles.end(), entry.at("role").get<std::string>());
  if (role == kRoles.end()) fail("the tensor {} has an unknown role", t.name);
  t.role = static_cast<Checkpoint::Role>(role - kRoles.begin());
  t.index = entry.at("index").get<int64_t>();
  t.shape = shape_from(entry.at("shape"), limit);
  return t;
}

/// The values that the header's tensors announce must be all that follows.
void read_tensors(const json& header, std::span<const uint8_t> data, Checkpoint& c) {
  for (const json& entry : header.at("tensors")) {
    Checkpoint::StoredTensor t = described_tensor(entry, data.size() / sizeof(float));
    t.values.resize(static_cast<size_t>(t.shape.elements()));
    const size_t bytes = t.values.size() * sizeof(float);
    if (bytes > data.size()) fail("the values of {} are missing", t.name);
    std::memcpy(t.values.data(), data.data(), bytes);
    data = data.subspan(bytes);
    c.tensors.push_back(std::move(t));
  }
  if (!data.empty()) fail("{} bytes follow the last tensor", data.size());
}

void expect_tensors(const json& header, uint64_t bytes) {
  for (const json& entry : header.at("tensors")) {
    const auto t = described_tensor(entry, bytes / sizeof(float));
    const uint64_t size = static_cast<uint64_t>(t.shape.elements()) * sizeof(float);
    if (size > bytes) fail("the values of {} are missing", t.name);
    bytes -= size;
  }
  if (bytes > 0) fail("{} bytes follow the last tensor", bytes);
}

std::optional<data::Normalisation> normalisation_from(const json& header) {
  const auto n = header.find("normalisation");
  if (n == header.end() || n->is_null()) return {};
  return data::Normalisation{n->at("mean").get<std::array<float, 3>>(),
                             n->at("std").get<std::array<float, 3>>()};
}

/// All but the tensors.
Checkpoint from_header(const json& header) {
  constexpr size_t kLargestImage = size_t{1} << 32;
  Checkpoint c;
  apply_config(c.options, header.at("config").get<std::string>(), "its configuration");
  c.image = shape_from(header.at("image"), kLargestImage);
  c.classes = header.at("classes").get<int64_t>();
  c.class_names = header.value("class_names", c.class_names);
  if (!c.class_names.empty() && static_cast<int64_t>(c.class_names.size()) != c.classes) {
    fail("it names {} of {} classes", c.class_names.size(), c.classes);
  }
  c.normalisation = normalisation_from(header);
  c.samples = header.at("samples").get<int64_t>();
  c.position = position_from_json(header.at("position"));
  c.history = history_from_json(header.at("history"));
  c.plan = header.at("plan").get<std::map<std::string, std::string>>();
  c.metrics_bytes = header.at("metrics_bytes").get<int64_t>();
  return c;
}

void expect_ours(std::span<const uint8_t> prologue) {
  if (std::memcmp(prologue.data(), kMagic.data(), kMagic.size()) != 0) {
    fail("it is not a checkpoint of crossbow");
  }
  const uint32_t version = read_u32(prologue, 8);
  if (version != kVersion)
    fail("it has format version {}, this program reads {}", version, kVersion);
}

/// Calls `use` with the header; what cannot be understood is damage.
template <typename Use>
Checkpoint with_header(std::span<const uint8_t> text, Use use) {
  try {
    return use(json::parse(text.begin(), text.end()));
  } catch (const json::exception& e) {
    fail("its header is damaged ({})", e.what());
  } catch (const UsageError& e) {
    fail("its header is damaged ({})", e.what());
  }
}

}  // namespace

std::vector<uint8_t> encode(const Checkpoint& checkpoint) {
  // Names of classes are names of folders, which need not be UTF-8.
  const std::string header =
      header_of(checkpoint).dump(-1, ' ', false, json::error_handler_t::replace);
  const auto length = static_cast<uint32_t>(header.size());
  size_t bytes = kPrologue + length + sizeof(uint32_t);
  for (const auto& t : checkpoint.tensors) bytes += t.values.size() * sizeof(float);
  std::vector<uint8_t> out;
  out.reserve(bytes);
  append(out, kMagic.data(), kMagic.size());
  append(out, &kVersion, sizeof kVersion);
  append(out, &length, sizeof length);
  append(out, header.data(), header.size());
  for (const auto& t : checkpoint.tensors)
    append(out, t.values.data(), t.values.size() * sizeof(float));
  const uint32_t crc = checksum(out);
  append(out, &crc, sizeof crc);
  return out;
}

Checkpoint decode(std::span<const uint8_t> file) {
  if (file.size() < kPrologue + 4) fail("it is not a checkpoint of crossbow");
  expect_ours(file);
  const auto body = file.first(file.size() - 4);
  if (read_u32(file, body.size()) != checksum(body)) {
    fail("its checksum does not match: it is cut short or damaged");
  }
  const size_t length = read_u32(file, 12);
  if (length > body.size() - kPrologue) fail("its header is longer than the file");
  return with_header(body.subspan(kPrologue, length), [&](const json& header) {
    Checkpoint c = from_header(header);
    read_tensors(header, body.subspan(kPrologue + length), c);
    return c;
  });
}

Checkpoint decode_header(std::istream& file, uint64_t file_size) {
  std::vector<uint8_t> bytes(kPrologue);
  const auto read = [&] {
    return static_cast<bool>(file.read(reinterpret_cast<char*>(bytes.data()),
                                       static_cast<std::streamsize>(bytes.size())));
  };
  if (file_size < kPrologue + 4 || !read()) fail("it is not a checkpoint of crossbow");
  expect_ours(bytes);
  const uint64_t body = file_size - kPrologue - 4, length = read_u32(bytes, 12);
  if (length > body) fail("its header is longer than the file");
  bytes.resize(length);
  if (!read()) fail("it cannot be read");
  return with_header(bytes, [&](const json& header) {
    expect_tensors(header, body - length);
    return from_header(header);
  });
}

}  // namespace crossbow
