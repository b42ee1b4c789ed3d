// The checkpoint's bytes.
#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/checkpoint_header.h"
#include "train/older_checkpoint.h"
#include "train/safetensors.h"

namespace crossbow {
namespace {

using nlohmann::json;
using Role = Checkpoint::Role;
using StoredTensor = Checkpoint::StoredTensor;

constexpr uint32_t kVersion = 6;
constexpr const char *kVersionKey = "crossbow_checkpoint", *kRunKey = "run";

/// Of the tensor in the file.
std::string key_of(const StoredTensor& t) {
  switch (t.role) {
    case Role::parameter:
    case Role::state:
      break;
    case Role::weights:
      return fmt::format("learner.{}.weights/{}", t.index, t.name);
    case Role::slot:
      return fmt::format("learner.{}.slot.{}/{}", t.index, t.slot, t.name);
    case Role::learner_state:
      return fmt::format("learner.{}.state/{}", t.index, t.name);
    case Role::central:
      return fmt::format("central.{}/{}", t.index, t.name);
  }
  return t.name;
}

/// Takes `start` off the beginning of `text`, if it is there.
bool skip(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

bool skip_index(std::string_view& text, int64_t& index) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  index = number;
  return true;
}

/// Role, index, slot and name of a tensor that does not belong to the model itself.
bool parse_prefix(std::string_view prefix, StoredTensor& t) {
  if (skip(prefix, "central.")) {
    t.role = Role::central;
    return skip_index(prefix, t.index) && prefix.empty();
  }
  if (!skip(prefix, "learner.") || !skip_index(prefix, t.index)) return false;
  if (skip(prefix, ".slot.")) {
    t.role = Role::slot;
    t.slot = prefix;
    return true;
  }
  t.role = prefix == ".weights" ? Role::weights : Role::learner_state;
  return prefix == ".weights" || prefix == ".state";
}

StoredTensor parse_key(const std::string& key, const std::set<std::string>& states) {
  const size_t slash = key.find('/');
  StoredTensor t;
  if (slash != key.npos && parse_prefix(std::string_view(key).substr(0, slash), t)) {
    t.name = key.substr(slash + 1);
    if (key_of(t) == key) return t;
  }
  StoredTensor own;
  own.name = key;
  if (states.contains(key)) own.role = Role::state;
  return own;
}

/// The values stay in `file`.
StoredTensor stored_tensor(const SafeTensors::Tensor& tensor, const std::set<std::string>& states,
                           const std::shared_ptr<const FileBytes>& file) {
  StoredTensor t = parse_key(tensor.name, states);
  if (tensor.type != "F32") fail("tensor {} has type {} instead of F32", tensor.name, tensor.type);
  try {
    t.shape = shape_from(tensor.shape, static_cast<size_t>(tensor.bytes) / sizeof(float));
  } catch (const Error& e) {
    fail("tensor {}: {}", tensor.name, e.what());
  }
  t.read = values_at(file, tensor.first);
  return t;
}

void expect_ours(const FileBytes& file) {
  if (!has_checksum(file)) fail("it is not a checkpoint of crossbow");
}

Checkpoint decode_unchecked(const FileBytes& file) {
  const SafeTensors tensors(file);
  const auto text = [&](const char* key) -> const std::string& {
    const auto found = tensors.metadata().find(key);
    if (found == tensors.metadata().end()) {
      fail("it is not a checkpoint of crossbow: its metadata have no {}", key);
    }
    return found->second;
  };
  if (const std::string& version = text(kVersionKey); version != std::to_string(kVersion)) {
    fail("it has format version {}, this program reads {}", version, kVersion);
  }
  return from_header(text(kRunKey), kVersion, [&](const json& header, Checkpoint& c) {
    const auto states = header.at("states").get<std::set<std::string>>();
    const auto kept = std::make_shared<const FileBytes>(file);
    for (const auto& t : tensors.tensors()) c.tensors.push_back(stored_tensor(t, states, kept));
  });
}

}  // namespace

void encode(const Checkpoint& checkpoint, const FileSink& sink) {
  std::vector<NamedTensor> tensors;
  std::set<std::string> states;
  for (const StoredTensor& t : checkpoint.tensors) {
    if (t.role == Role::state) states.insert(t.name);
  }
  for (const StoredTensor& t : checkpoint.tensors) {
    const std::string key = key_of(t);
    const StoredTensor read = parse_key(key, states);
    if (read.role != t.role || read.slot != t.slot || read.name != t.name) {
      fail("cannot save {}: a checkpoint would take it for another's {}; choose another name", key,
           read.name);
    }
    tensors.push_back({key, {t.shape.begin(), t.shape.end()}, t.read});
  }
  json header = header_of(checkpoint);
  header["states"] = states;
  encode_safetensors(tensors,
                     {{"format", "pt"},
                      {kVersionKey, std::to_string(kVersion)},
                      {kRunKey, header.dump(-1, ' ', false, json::error_handler_t::replace)}},
                     sink);
}

Checkpoint decode(const FileBytes& file) {
  if (is_older_checkpoint(file)) return decode_older(file);
  expect_ours(file);
  if (!is_intact(file)) fail("its checksum does not match: it is cut short or damaged");
  return decode_unchecked(file);
}

Checkpoint decode_header(const FileBytes& file) {
  if (is_older_checkpoint(file)) return decode_older_header(file);
  expect_ours(file);
  return decode_unchecked(file);
}

}  // namespace crossbow
