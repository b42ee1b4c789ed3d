#include "train/older_checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/checkpoint_header.h"
#include "train/record_json.h"

namespace crossbow {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view kMagic = "CROSSBOW";
constexpr uint32_t kOldest = 3, kNewest = 5;
constexpr int64_t kPrologue = 16, kEpilogue = 4;  // magic, version, header length; checksum
constexpr std::array<std::string_view, 6> kRoles = {"parameter", "state",         "weights",
                                                    "slot",      "learner_state", "central"};

uint32_t read_u32(const FileBytes& file, int64_t at) {
  std::array<uint8_t, sizeof(uint32_t)> bytes;
  file.read(at, bytes);
  return std::bit_cast<uint32_t>(bytes);
}

/// Of all before the checksum itself.
uint32_t checksum(const FileBytes& file) {
  const FileBytes checked{file.size - kEpilogue, file.read};
  uint32_t crc = 0;
  read_in_pieces(checked, [&](int64_t, std::span<uint8_t> bytes) {
    crc = static_cast<uint32_t>(crc32_z(crc, bytes.data(), bytes.size()));
  });
  return crc;
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
  t.shape = shape_from(entry.at("shape").get<std::vector<int64_t>>(),
                       static_cast<size_t>(end - at) / sizeof(float));
  t.read = values_at(file, at);
  at += t.shape.elements() * static_cast<int64_t>(sizeof(float));
  return t;
}

void expect_version(const FileBytes& file) {
  if (file.size < kPrologue + kEpilogue) fail("it is no whole checkpoint of crossbow");
  const uint32_t version = read_u32(file, 8);
  if (version < kOldest || version > kNewest) {
    fail("it has format version {}, and of its kind this program reads {} to {}", version, kOldest,
         kNewest);
  }
}

}  // namespace

bool is_older_checkpoint(const FileBytes& file) {
  std::array<uint8_t, kMagic.size()> magic{};
  if (file.size < std::ssize(magic)) return false;
  file.read(0, magic);
  return std::equal(magic.begin(), magic.end(), kMagic.begin());
}

Checkpoint decode_older(const FileBytes& file) {
  expect_version(file);
  if (read_u32(file, file.size - kEpilogue) != checksum(file)) {
    fail("its checksum does not match: it is cut short or damaged");
  }
  return decode_older_header(file);
}

Checkpoint decode_older_header(const FileBytes& file) {
  expect_version(file);
  const int64_t length = read_u32(file, 12), end = file.size - kEpilogue;
  if (length > end - kPrologue) fail("its header is longer than the file");
  std::string text(static_cast<size_t>(length), '\0');
  file.read(kPrologue, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return from_header(text, read_u32(file, 8), [&](const json& header, Checkpoint& c) {
    const auto kept = std::make_shared<const FileBytes>(file);
    int64_t at = kPrologue + length;
    for (const json& entry : header.at("tensors")) {
      c.tensors.push_back(read_stored_tensor(entry, c.options, kept, at, end));
    }
    if (at != end) fail("{} bytes follow the last tensor", end - at);
  });
}

}  // namespace crossbow
