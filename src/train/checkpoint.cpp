#include "train/checkpoint.h"

#include <fstream>

#include "core/error.h"
#include "core/file.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;
using Role = Checkpoint::Role;

fs::path newest(const fs::path& folder) {
  return folder / "checkpoint";
}
fs::path previous(const fs::path& folder) {
  return folder / "checkpoint.previous";
}

template <typename T>
T* at(const Buffer& buffer, const ParameterLayout::Slot& slot) {
  return buffer.as<T>() + slot.offset;
}

void store_slots(const std::vector<ParameterLayout::Slot>& slots, const Buffer& buffer, Role role,
                 Checkpoint& checkpoint) {
  for (const auto& slot : slots) {
    Checkpoint::StoredTensor t{slot.name, role, slot.layout.shape, {}};
    t.values.resize(static_cast<size_t>(t.shape.elements()));
    read_tensor(slot.layout, at<const float>(buffer, slot), std::span(t.values));
    checkpoint.tensors.push_back(std::move(t));
  }
}

void restore_slots(const Checkpoint& checkpoint, const std::vector<ParameterLayout::Slot>& slots,
                   const Buffer& buffer, Role role) {
  std::map<std::string_view, const Checkpoint::StoredTensor*> stored;
  for (const auto& t : checkpoint.tensors) {
    if (t.role == role) stored[t.name] = &t;
  }
  if (role == Role::momentum && stored.empty()) return;
  for (const auto& slot : slots) {
    const auto it = stored.find(slot.name);
    if (it == stored.end()) fail("the checkpoint holds no {}: it is of another net", slot.name);
    const auto& t = *it->second;
    if (t.shape != slot.layout.shape) {
      fail("{} has shape {} in the checkpoint and {} in the net: it is of another net", slot.name,
           t.shape.str(), slot.layout.shape.str());
    }
    write_tensor(slot.layout, at<float>(buffer, slot), std::span(t.values));
  }
  if (stored.size() != slots.size())
    fail("the checkpoint holds more than the net: it is of another net");
}

Checkpoint read_checkpoint(const fs::path& path) {
  if (!fs::is_regular_file(path)) fail("there is no checkpoint {}", path.string());
  std::vector<uint8_t> bytes(fs::file_size(path));
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()))) {
    fail("cannot read {}", path.string());
  }
  try {
    return decode(bytes);
  } catch (const Error& e) {
    fail("cannot use {}: {}", path.string(), e.what());
  }
}

}  // namespace

void store(const ParameterLayout& layout, const Replica& replica, bool momentum,
           Checkpoint& checkpoint) {
  store_slots(layout.parameters, replica.parameters, Role::parameter, checkpoint);
  if (momentum) store_slots(layout.parameters, replica.momentum, Role::momentum, checkpoint);
  store_slots(layout.states, replica.states, Role::state, checkpoint);
}

void restore(const Checkpoint& checkpoint, const ParameterLayout& layout, const Replica& replica) {
  restore_slots(checkpoint, layout.parameters, replica.parameters, Role::parameter);
  restore_slots(checkpoint, layout.parameters, replica.momentum, Role::momentum);
  restore_slots(checkpoint, layout.states, replica.states, Role::state);
}

void save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  // The newest becomes the previous one only when its successor is safe on disk.
  const fs::path kept = folder / "checkpoint.kept";
  std::error_code error;
  fs::remove(kept, error);
  fs::create_hard_link(newest(folder), kept, error);
  if (error && fs::exists(newest(folder))) fs::copy_file(newest(folder), kept, error);
  try {
    write_file_atomically(newest(folder), {encode(checkpoint)});
  } catch (...) {
    fs::remove(kept, error);
    throw;
  }
  fs::rename(kept, previous(folder), error);
}

Checkpoint load_checkpoint(const fs::path& folder_or_file,
                           const std::function<void(std::string_view)>& warn) {
  if (!fs::exists(folder_or_file))
    fail("there is no run or checkpoint {}", folder_or_file.string());
  if (!fs::is_directory(folder_or_file)) return read_checkpoint(folder_or_file);
  const bool has_previous = fs::exists(previous(folder_or_file));
  if (!has_previous && !fs::exists(newest(folder_or_file))) {
    fail("{} holds no checkpoint: give the folder of a run", folder_or_file.string());
  }
  try {
    return read_checkpoint(newest(folder_or_file));
  } catch (const Error& e) {
    if (!has_previous) throw;
    Checkpoint before = read_checkpoint(previous(folder_or_file));
    warn(fmt::format("{}; using the checkpoint before it", e.what()));
    return before;
  }
}

}  // namespace crossbow
