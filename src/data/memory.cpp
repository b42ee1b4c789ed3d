#include "data/memory.h"

#include "core/error.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

class FloatSplit final : public Split {
 public:
  FloatSplit(const Samples& samples, int64_t sample_elements)
      : Split(std::vector<int32_t>(samples.labels.begin(), samples.labels.end())),
        values_(samples.values.begin(), samples.values.end()),
        sample_elements_(sample_elements) {}

  Sample sample(int64_t i, std::vector<uint8_t>*) const override {
    return values_.data() + i * sample_elements_;
  }
  bool in_memory() const override { return true; }

 private:
  const std::vector<float> values_;
  const int64_t sample_elements_;
};

std::shared_ptr<const Split> split(std::string_view part, const Info& info,
                                   const Samples& samples) {
  const size_t n = samples.labels.size(), values = samples.values.size();
  if (n == 0) fail_usage("{} samples from memory: there are none", part);
  if (values != n * static_cast<size_t>(info.image.elements())) {
    fail_usage("{} samples from memory: {} labels and images of shape {} need {} values, not {}",
               part, n, info.image.str(), n * static_cast<size_t>(info.image.elements()), values);
  }
  for (size_t i = 0; i < n; ++i) {
    if (samples.labels[i] < 0 || samples.labels[i] >= info.classes) {
      fail_usage("{} samples from memory: label {} is {}, which is none of {} classes", part, i,
                 samples.labels[i], info.classes);
    }
  }
  return std::make_shared<FloatSplit>(samples, info.image.elements());
}

}  // namespace

std::shared_ptr<const Dataset> from_memory(Info info, const Samples& train, const Samples& test) {
  info.name = kMemory;
  if (info.image.rank() != 3 || info.image.elements() < 1) {
    fail_usage("samples from memory: their shape is {}, but must be [channels, height, width]",
               info.image.str());
  }
  if (info.classes < 1) fail_usage("samples from memory: {} classes are too few", info.classes);
  if (info.class_names.empty()) info.class_names = numbered_classes(info.classes);
  if (static_cast<int64_t>(info.class_names.size()) != info.classes) {
    fail_usage("samples from memory: {} names for {} classes", info.class_names.size(),
               info.classes);
  }
  auto first = split("training", info, train), second = split("test", info, test);
  return std::make_shared<const Dataset>(
      Dataset{std::move(info), std::move(first), std::move(second)});
}

}  // namespace crossbow::data
