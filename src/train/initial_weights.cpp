#include "train/initial_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/nearest.h"
#include "core/text.h"
#include "plan/named_tensors.h"
#include "train/safetensors.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

using Slot = ParameterLayout::Slot;

/// PyTorch's own files are archives or pickles, which only Python reads safely. The length that
/// safetensors begin with may look like one; their header follows it.
void refuse_pickles(const fs::path& path, const FileBytes& file) {
  constexpr size_t kHeader = 8;
  std::array<uint8_t, kHeader + 1> first{};
  if (file.size < std::ssize(first)) return;
  file.read(0, first);
  const bool archive = first[0] == 'P' && first[1] == 'K', pickle = first[0] == 0x80;
  if (first[kHeader] == '{' || (!archive && !pickle)) return;
  fs::path to = path;
  fail(
      "it is a file of PyTorch's own; have Python write another: python3 -c \"import torch, "
      "safetensors.torch as s; s.save_file(torch.load('{}', 'cpu', weights_only=True), '{}')\"",
      path.string(), to.replace_extension(".safetensors").string());
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<int64_t> shape_of(const Slot& slot) {
  const Shape& shape = slot.layout.shape;
  return {shape.begin(), shape.end()};
}

/// Outputs of the last layer, here and in the file.
struct Classes {
  int64_t own, other;

  /// Whether a tensor, of the last layer or an auxiliary head's, differs in them alone.
  bool make_all_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& in_file) const {
    return own != other && shape.size() == in_file.size() && !shape.empty() && shape[0] == own &&
           in_file[0] == other && std::equal(shape.begin() + 1, shape.end(), in_file.begin() + 1);
  }
};

Classes classes_of(const SafeTensors& file, const ParameterLayout& layout) {
  const Slot& last = layout.last_parameter();
  const SafeTensors::Tensor* const found = file.find(last.name);
  const int64_t own = shape_of(last)[0];
  return {own, found && !found->shape.empty() ? found->shape[0] : own};
}

[[noreturn]] void fail_missing(const SafeTensors& file, const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& t : file.tensors()) names.push_back(t.name);
  fail("it has no tensor {} among its {}, which the net needs{}", name, names.size(),
       did_you_mean(name, names));
}

/// Those of floating-point numbers; others count batches and the like.
std::vector<std::string> surplus(const SafeTensors& file, const ParameterLayout& layout) {
  std::vector<std::string> names;
  for (const auto& t : file.tensors()) {
    if (t.type.find('F') != std::string::npos && !layout.find(t.name)) names.push_back(t.name);
  }
  return names;
}

std::vector<std::string> set_tensors(const SafeTensors& file, const ParameterLayout& layout,
                                     const Replica& model) {
  const Classes classes = classes_of(file, layout);
  std::vector<std::string> afresh;
  for (const auto* slots : layout.all()) {
    for (const Slot& slot : *slots) {
      const SafeTensors::Tensor* const found = file.find(slot.name);
      if (!found) fail_missing(file, slot.name);
      const std::vector<int64_t> own = shape_of(slot);
      if (found->shape == own) {
        write_named(layout, model, slot.name, file.values(*found));
      } else if (classes.make_all_of(own, found->shape)) {
        afresh.push_back(
            fmt::format("{} {} ({} there)", slot.name, shape_text(own), shape_text(found->shape)));
      } else {
        fail("its tensor {} has shape {}, and the net's has {}", slot.name,
             shape_text(found->shape), shape_text(own));
      }
    }
  }
  return afresh;
}

}  // namespace

std::vector<std::string> start_from_file(const fs::path& path, const ParameterLayout& layout,
                                         const Replica& model) {
  try {
    FileBytes bytes = bytes_of_file(path);
    refuse_pickles(path, bytes);
    if (has_checksum(bytes) && !is_intact(bytes)) {
      fail(
          "its checksum does not match: it is cut short or damaged, or a program has changed it "
          "and "
          "kept its metadata, from which `crc32c` must go");
    }
    const SafeTensors file(std::move(bytes));
    std::vector<std::string> notes;
    const std::vector<std::string> afresh = set_tensors(file, layout, model);
    if (!afresh.empty()) {
      notes.push_back(fmt::format("`init` {}: drawn afresh, for other outputs: {}", path.string(),
                                  fmt::join(afresh, ", ")));
    }
    if (const auto unused = surplus(file, layout); !unused.empty()) {
      notes.push_back(fmt::format("`init` {}: the net has no use for {}, the first of them {}",
                                  path.string(), count(std::ssize(unused), "tensor"), unused[0]));
    }
    return notes;
  } catch (const Error& e) {
    fail("`init` {}: {}", path.string(), e.what());
  }
}

}  // namespace crossbow
