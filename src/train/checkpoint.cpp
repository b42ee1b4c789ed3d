#include "train/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "device/host_window.h"
#include "plan/row_major.h"

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

using Slots = std::vector<ParameterLayout::Slot>;

constexpr int64_t kPiece = 1 << 16;  // values

/// What the tensors of one flat buffer have in common.
struct Key {
  Role role;
  int64_t index = 0;
  std::string slot = {};

  bool is_of(const Checkpoint::StoredTensor& t) const {
    return t.role == role && t.index == index && t.slot == slot;
  }
};

struct Reader {
  HostWindow window;
  RowMajor order;
};

void store_slots(const Slots& slots, const std::byte* buffer, Device& device, const Key& key,
                 Checkpoint& checkpoint) {
  for (const auto& slot : slots) {
    const std::byte* const from = buffer + slot.offset * static_cast<int64_t>(sizeof(float));
    // Windows are large and tensors are read one after the other, so there is one at a time.
    const auto reader = std::make_shared<std::optional<Reader>>();
    const auto read = [layout = slot.layout, from, &device, reader](int64_t first,
                                                                    std::span<float> values) {
      if (!*reader) reader->emplace(Reader{{device, from, layout.bytes()}, RowMajor(layout)});
      (*reader)->order.read((*reader)->window.data(), first, values);
      if (first + std::ssize(values) == layout.shape.elements()) reader->reset();
    };
    checkpoint.tensors.push_back(
        {slot.name, key.role, key.index, slot.layout.shape, read, key.slot});
  }
}

/// `elsewhere`: tensors of the key that lie in another buffer.
void restore_slots(const Checkpoint& checkpoint, const Slots& slots, std::byte* buffer,
                   Device& device, const Key& key, size_t elsewhere = 0) {
  std::map<std::string_view, const Checkpoint::StoredTensor*> stored;
  for (const auto& t : checkpoint.tensors) {
    if (key.is_of(t)) stored[t.name] = &t;
  }
  std::vector<float> piece;
  for (const auto& slot : slots) {
    const auto it = stored.find(slot.name);
    if (it == stored.end()) {
      fail("{} holds no {}: it is of another net", checkpoint.source, slot.name);
    }
    const auto& t = *it->second;
    if (t.shape != slot.layout.shape) {
      fail("{} has shape {} in {} and {} in the net: it is of another net", slot.name,
           t.shape.str(), checkpoint.source, slot.layout.shape.str());
    }
    const HostDraft draft(device, buffer + slot.offset * static_cast<int64_t>(sizeof(float)),
                          slot.layout.bytes());
    const RowMajor order(slot.layout);
    for (int64_t first = 0; first < t.shape.elements(); first += kPiece) {
      piece.resize(static_cast<size_t>(std::min(kPiece, t.shape.elements() - first)));
      t.read(first, piece);
      order.write(draft.data(), first, piece);
    }
    draft.commit();
  }
  if (stored.size() != slots.size() + elsewhere) {
    fail("{} holds more than the net: it is of another net", checkpoint.source);
  }
}

Role role_of(EngineBuffer::Kind kind) {
  switch (kind) {
    case EngineBuffer::Kind::weights:
      return Role::weights;
    case EngineBuffer::Kind::slot:
      return Role::slot;
    case EngineBuffer::Kind::states:
      return Role::learner_state;
    case EngineBuffer::Kind::central:
      break;
  }
  return Role::central;
}

Key key_of(const EngineBuffer& b) {
  return {role_of(b.kind), b.index, b.slot};
}

const Slots& slots_of(const ParameterLayout& layout, EngineBuffer::Kind kind) {
  return kind == EngineBuffer::Kind::states ? layout.states : layout.parameters;
}

/// Without a branch in the loop, so that it is one of vectors.
bool all_finite(Device& device, const std::byte* buffer, int64_t count) {
  const HostWindow window(device, buffer, static_cast<size_t>(count) * sizeof(float));
  const std::byte* const values = window.data();
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t odd = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i * 4, sizeof bits);
    odd |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return odd == 0;
}

/// From a file's bytes to what it holds.
using Decode = Checkpoint (*)(const FileBytes& file);

Checkpoint read_checkpoint(const fs::path& path, Decode decode) {
  const FileBytes file = bytes_of_file(path);
  try {
    Checkpoint checkpoint = decode(file);
    checkpoint.source = path.string();
    return checkpoint;
  } catch (const Error& e) {
    fail("cannot use {}: {}", path.string(), e.what());
  }
}

bool is_there(const fs::path& path) {
  return type_of(path) != fs::file_type::not_found;
}

Checkpoint load(const fs::path& folder_or_file, const std::function<void(std::string_view)>& warn,
                Decode decode) {
  const fs::file_type type = type_of(folder_or_file);
  if (type == fs::file_type::not_found) {
    fail("there is no run or checkpoint {}", folder_or_file.string());
  }
  if (type != fs::file_type::directory) return read_checkpoint(folder_or_file, decode);
  const bool has_previous = is_there(previous(folder_or_file));
  if (!has_previous && !is_there(newest(folder_or_file))) {
    fail("{} holds no checkpoint: give the folder of a run", folder_or_file.string());
  }
  try {
    return read_checkpoint(newest(folder_or_file), decode);
  } catch (const Error& e) {
    if (!has_previous) throw;
    Checkpoint before = read_checkpoint(previous(folder_or_file), decode);
    warn(fmt::format("{}; using the checkpoint before it", e.what()));
    return before;
  }
}

/// Gives the newest checkpoint a second name, if it is worth one; returns whether it has.
bool keep_newest(const fs::path& folder, const fs::path& kept) {
  std::error_code error;
  fs::remove(kept, error);
  try {
    read_checkpoint(newest(folder), decode);
  } catch (const Error&) {
    return false;
  }
  link_or_copy(newest(folder), kept);
  return true;
}

}  // namespace

std::vector<float> Checkpoint::StoredTensor::values() const {
  std::vector<float> all(static_cast<size_t>(shape.elements()));
  read(0, all);
  return all;
}

void copy_values(Checkpoint& checkpoint) {
  for (auto& tensor : checkpoint.tensors) {
    const auto copy = std::make_shared<const std::vector<float>>(tensor.values());
    tensor.read = [copy](int64_t first, std::span<float> values) {
      std::copy_n(copy->begin() + first, values.size(), values.begin());
    };
  }
}

void store(const ParameterLayout& layout, const Replica& model, Checkpoint& checkpoint) {
  store_slots(layout.parameters, model.parameters.data(), *model.device, {Role::parameter},
              checkpoint);
  store_slots(layout.frozen_parameters, model.frozen.data(), *model.device, {Role::parameter},
              checkpoint);
  store_slots(layout.states, model.states.data(), *model.device, {Role::state}, checkpoint);
  store_slots(layout.frozen_states, model.frozen.data(), *model.device, {Role::state}, checkpoint);
}

void store(const ParameterLayout& layout, std::span<const EngineBuffer> buffers,
           Checkpoint& checkpoint) {
  for (const EngineBuffer& b : buffers) {
    store_slots(slots_of(layout, b.kind), b.data, *b.device, key_of(b), checkpoint);
  }
}

bool all_finite(const ParameterLayout& layout, const Replica& model,
                std::span<const EngineBuffer> buffers) {
  bool finite = all_finite(*model.device, model.parameters.data(), layout.parameter_elements) &&
                all_finite(*model.device, model.states.data(), layout.state_elements) &&
                all_finite(*model.device, model.frozen.data(), layout.frozen_elements);
  for (const EngineBuffer& b : buffers) {
    const bool states = b.kind == EngineBuffer::Kind::states;
    finite = finite && all_finite(*b.device, b.data,
                                  states ? layout.state_elements : layout.parameter_elements);
  }
  return finite;
}

bool holds(const Checkpoint& checkpoint, const EngineBuffer& buffer) {
  return std::any_of(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                     [key = key_of(buffer)](const auto& t) { return key.is_of(t); });
}

void restore(const Checkpoint& checkpoint, const ParameterLayout& layout, const Replica& model) {
  const auto restore_both = [&](const Slots& own, const Buffer& buffer, const Slots& frozen,
                                const Key& key) {
    restore_slots(checkpoint, own, buffer.data(), *model.device, key, frozen.size());
    restore_slots(checkpoint, frozen, model.frozen.data(), *model.device, key, own.size());
  };
  restore_both(layout.parameters, model.parameters, layout.frozen_parameters, {Role::parameter});
  restore_both(layout.states, model.states, layout.frozen_states, {Role::state});
}

void restore(const Checkpoint& checkpoint, const ParameterLayout& layout,
             std::span<const EngineBuffer> buffers) {
  for (const EngineBuffer& b : buffers) {
    restore_slots(checkpoint, slots_of(layout, b.kind), b.data, *b.device, key_of(b));
  }
}

void save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  // The newest becomes the previous one only when its successor is safe on disk. That it is whole
  // is found out meanwhile; afterwards, where the system refuses another thread.
  const fs::path kept = folder / "checkpoint.kept";
  auto keeping = std::async(keep_newest, folder, kept);
  bool keep = false;
  std::error_code error;
  try {
    AtomicFile file(newest(folder));
    encode(checkpoint, file.sink());
    keep = keeping.get();
    file.commit();
  } catch (...) {
    if (keeping.valid()) keeping.wait();
    fs::remove(kept, error);
    throw;
  }
  if (!keep) return;
  Descriptor replaced(
      ::open(previous(folder).c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  fs::rename(kept, previous(folder), error);
  close_meanwhile(std::move(replaced));
}

Checkpoint load_checkpoint(const fs::path& folder_or_file,
                           const std::function<void(std::string_view)>& warn) {
  return load(folder_or_file, warn, decode);
}

Checkpoint load_checkpoint_header(const fs::path& folder_or_file,
                                  const std::function<void(std::string_view)>& warn) {
  return load(folder_or_file, warn, decode_header);
}

}  // namespace crossbow
