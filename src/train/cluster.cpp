#include "train/cluster.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "comm/world.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "device/host_window.h"
#include "kernels/cpu/version.h"
#include "train/config.h"
#include "train/record_json.h"

namespace crossbow {
namespace {

using nlohmann::json;
using Role = Checkpoint::Role;
using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, const void* data, size_t size) {
  const auto* const first = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + size);
}

/// Whether a tensor is one of a learner's own.
class OfLearner {
 public:
  explicit OfLearner(const Checkpoint& checkpoint)
      : apart_(std::ranges::any_of(checkpoint.tensors, [](const Checkpoint::StoredTensor& t) {
          return t.role == Role::weights;
        })) {}

  bool operator()(const Checkpoint::StoredTensor& t) const {
    return t.role == Role::weights || t.role == Role::learner_state ||
           (t.role == Role::slot && apart_);
  }

 private:
  bool apart_;  // else learners share weights, and the optimizer's slots too
};

/// Of learners, and of central buffers, from these on: headers of the tensors, their length before
/// them, and the values.
Bytes packed(const Checkpoint& checkpoint, int64_t learner, int64_t central) {
  const OfLearner of_learner(checkpoint);
  const auto is_own = [&](const Checkpoint::StoredTensor& t) {
    return t.role == Role::central ? t.index >= central : of_learner(t) && t.index >= learner;
  };
  json headers = json::array();
  for (const auto& t : checkpoint.tensors) {
    if (!is_own(t)) continue;
    headers.push_back({t.name, static_cast<int>(t.role), t.index, t.slot,
                       std::vector<int64_t>(t.shape.begin(), t.shape.end())});
  }
  const std::string text = headers.dump();
  const uint64_t length = text.size();
  Bytes bytes;
  append(bytes, &length, sizeof length);
  append(bytes, text.data(), text.size());
  for (const auto& t : checkpoint.tensors) {
    if (!is_own(t)) continue;
    const std::vector<float> values = t.values();
    append(bytes, values.data(), values.size() * sizeof(float));
  }
  return bytes;
}

void unpack(const std::shared_ptr<const Bytes>& bytes, Checkpoint& checkpoint) {
  uint64_t length = 0;
  std::memcpy(&length, bytes->data(), sizeof length);
  const auto* const text = reinterpret_cast<const char*>(bytes->data()) + sizeof length;
  size_t at = sizeof length + length;
  for (const json& header : json::parse(text, text + length)) {
    Checkpoint::StoredTensor t;
    t.name = header[0].get<std::string>();
    t.role = static_cast<Role>(header[1].get<int>());
    t.index = header[2].get<int64_t>();
    t.slot = header[3].get<std::string>();
    t.shape = Shape(std::span<const int64_t>(header[4].get<std::vector<int64_t>>()));
    t.read = [bytes, at](int64_t first, std::span<float> values) {
      const size_t begin = at + static_cast<size_t>(first) * sizeof(float);
      std::memcpy(values.data(), bytes->data() + begin, values.size_bytes());
    };
    at += static_cast<size_t>(t.shape.elements()) * sizeof(float);
    checkpoint.tensors.push_back(std::move(t));
  }
}

using Parts = std::vector<std::pair<std::string, std::string>>;

uint32_t checksum(const data::Split& split, LabelKind kind) {
  uLong crc = 0;
  const auto add = [&](const auto& values) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(values.data()), values.size_bytes());
  };
  for (int64_t i = 0; i < split.size(); ++i) {
    if (kind == LabelKind::number) {
      const float number = split.number(i);
      add(std::span(&number, 1));
    } else {
      add(split.label_set(i));
    }
  }
  return static_cast<uint32_t>(crc);
}

Parts parts_of(const TrainOptions& options, const data::Dataset& dataset, int learners,
               const Position* from) {
  Parts parts{{"the version", CROSSBOW_VERSION},
              {"the instruction set of the loops", cpu_version().loops},
              {"the number of learners", std::to_string(learners)},
              {"--min-ranks", std::to_string(options.min_ranks)},
              {"the place to go on from", from ? to_json(*from).dump() : "the beginning"}};
  for (const OptionEntry& entry : option_table()) {
    constexpr std::array kOfRankZero{"out", "keep-best", "data"};
    if (std::ranges::find(kOfRankZero, entry.name) != kOfRankZero.end()) continue;
    parts.emplace_back(fmt::format("`{}`", entry.name), option_text(options, entry));
  }
  if (options.init && !from) {
    const FileBytes init = bytes_of_file(*options.init);
    parts.emplace_back("the checksum of `init`", fmt::format("{:08x}", crc32c(init)));
  }
  for (const auto& [name, split] :
       {std::pair("training", &dataset.train), {"test", &dataset.test}}) {
    parts.emplace_back(fmt::format("the number of {} samples", name),
                       std::to_string((*split)->size()));
    parts.emplace_back(fmt::format("the checksum of the {} labels", name),
                       fmt::format("{:08x}", checksum(**split, dataset.info.label)));
  }
  return parts;
}

}  // namespace

void gather_learners(Checkpoint& checkpoint, int learners) {
  World& all = *world();
  int64_t central = 0;  // of rank 0
  for (const auto& t : checkpoint.tensors) {
    if (t.role == Role::central) central = std::max(central, t.index + 1);
  }
  central = agreed(central);
  if (all.rank() > 0) {
    const Bytes own = packed(checkpoint, int64_t{all.rank()} * learners, central);
    const uint64_t size = own.size();
    all.send(std::as_bytes(std::span(&size, 1)), 0);
    all.send(own, 0);
    return;
  }
  for (int r = 1; r < all.size(); ++r) {
    uint64_t size = 0;
    all.receive(std::as_writable_bytes(std::span(&size, 1)), r);
    const auto bytes = std::make_shared<Bytes>(size);
    all.receive(*bytes, r);
    unpack(bytes, checkpoint);
  }
}

std::vector<std::vector<int32_t>> gathered_on_first(const std::vector<int32_t>& own) {
  World& all = *world();
  const std::vector<size_t> sizes = of_all_ranks(own.size());
  if (all.rank() > 0) {
    all.send(std::as_bytes(std::span(own)), 0);
    return {};
  }
  std::vector<std::vector<int32_t>> by_rank{own};
  for (int r = 1; r < all.size(); ++r) {
    auto& values = by_rank.emplace_back(sizes[static_cast<size_t>(r)]);
    all.receive(std::as_writable_bytes(std::span(values)), r);
  }
  return by_rank;
}

std::optional<Checkpoint> state_of_survivors(const Checkpoint* own) {
  struct Place {
    int64_t epoch, batch, exchanges;
    auto operator<=>(const Place&) const = default;
  };
  World& all = *world();
  constexpr Place kNowhere{-1, 0, 0};
  Place place = kNowhere;
  Checkpoint learners;
  if (own) {
    const Position& p = own->position;
    place = {p.epoch, p.batch, p.engine.exchanges};
    std::ranges::copy_if(own->tensors, std::back_inserter(learners.tensors), OfLearner(*own));
    copy_values(learners);
  }
  const std::vector<Place> places = of_all_ranks(place);
  const auto furthest = std::ranges::max_element(places);
  if (*furthest == kNowhere) return {};
  const auto leader = static_cast<int>(furthest - places.begin());

  const auto bytes = std::make_shared<std::vector<uint8_t>>();
  if (all.rank() == leader) {
    Checkpoint common = *own;
    std::erase_if(common.tensors, OfLearner(*own));
    common.position.ranks = 1;  // as none is no number to be read
    encode(common, {[&](std::span<const uint8_t> piece) {
                      bytes->insert(bytes->end(), piece.begin(), piece.end());
                    },
                    [&](int64_t offset, std::span<const uint8_t> piece) {
                      std::ranges::copy(piece, bytes->begin() + offset);
                    }});
  }
  uint64_t size = bytes->size();
  all.broadcast(std::as_writable_bytes(std::span(&size, 1)), leader);
  bytes->resize(size);
  all.broadcast(std::as_writable_bytes(std::span(*bytes)), leader);
  Checkpoint state =
      decode({static_cast<int64_t>(size), [bytes](int64_t offset, std::span<uint8_t> piece) {
                std::copy_n(bytes->begin() + offset, piece.size(), piece.begin());
              }});
  std::ranges::move(learners.tensors, std::back_inserter(state.tensors));
  state.position.ranks = 0;
  return state;
}

void drop_learner(Checkpoint& checkpoint, int64_t learner) {
  const OfLearner of_learner(checkpoint);
  std::erase_if(checkpoint.tensors,
                [&](const auto& t) { return of_learner(t) && t.index == learner; });
  for (auto& t : checkpoint.tensors) {
    if (of_learner(t) && t.index > learner) --t.index;
  }
}

void expect_alike(const TrainOptions& options, const data::Dataset& dataset, int learners,
                  const Position* from) {
  if (!world()) return;
  const Parts own = parts_of(options, dataset, learners, from);
  const std::string text = json(own).dump();
  const auto all = world()->all_gather(std::as_bytes(std::span(text)));
  const auto parts = [&](int rank) {
    const Bytes& bytes = all[static_cast<size_t>(rank)];
    const auto* const first = reinterpret_cast<const char*>(bytes.data());
    return json::parse(first, first + bytes.size()).get<Parts>();
  };
  const Parts first = parts(0);
  for (int r = 1; r < world()->size(); ++r) {
    const Parts others = parts(r);
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i] == others[i]) continue;
      fail("the ranks are not alike: {} is {} on {} (rank 0) and {} on {} (rank {})",
           first[i].first, first[i].second, world()->host(0), others[i].second, world()->host(r),
           r);
    }
  }
}

void expect_same_model(const ParameterLayout& layout, const Replica& model) {
  if (!world()) return;
  std::string slots;
  for (const auto* of_kind : layout.all()) {
    for (const auto& slot : *of_kind)
      slots += fmt::format("{} {} {};", slot.name, slot.layout.elements(), slot.offset);
  }
  const auto checksum_of = [&](const Buffer& buffer, int64_t elements) {
    const size_t bytes = static_cast<size_t>(elements) * size_of(layout.dtype);
    const HostWindow window(*model.device, buffer.data(), bytes);
    return crc32c({reinterpret_cast<const uint8_t*>(window.data()), bytes});
  };
  const std::array own{crc32c({reinterpret_cast<const uint8_t*>(slots.data()), slots.size()}),
                       checksum_of(model.parameters, layout.parameter_elements),
                       checksum_of(model.states, layout.state_elements)};
  const auto all = of_all_ranks(own);
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    fail("the models of {} (rank 0) and {} (rank {}) are {}", world()->host(0),
         world()->host(static_cast<int>(r)), r,
         all[r][0] == all[0][0] ? "no longer the same" : "laid out in different ways");
  }
}

}  // namespace crossbow
