// What Crossbow computes of a net whose weights and batches somebody else has chosen, for
// near_pytorch/__main__.py to compare. Files are safetensors: "images" [n, channels, height,
// width], "labels" [n], and the net's tensors by name. There is no dropout.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/model.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "plan/compiled_model.h"
#include "plan/row_major.h"
#include "train/initial_weights.h"
#include "train/safetensors.h"
#include "train/session.h"

namespace crossbow {
namespace {

using nlohmann::json;

constexpr int64_t kClasses = 1000;
constexpr int kThreads = 2;

struct Batches {
  Shape images;  // [n, channels, height, width]
  std::vector<float> pixels;
  std::vector<int32_t> labels;
};

Batches batches_of(const std::string& path) {
  const SafeTensors file(bytes_of_file(path));
  const SafeTensors::Tensor *images = file.find("images"), *labels = file.find("labels");
  if (!images || !labels || images->shape.size() != 4) fail("{} holds no batches", path);
  const std::vector<float> numbers = file.values(*labels);
  return {Shape(images->shape), file.values(*images), {numbers.begin(), numbers.end()}};
}

Graph without_dropout(const Graph& graph) {
  return rewrite(graph, [&](Rewriter& r, int32_t id) {
    const Node& node = graph.nodes()[id];
    if (node.op->name != "dropout") return r.copy(id);
    r.replace({id, 0}, r.mapped(node.inputs[0]));
  });
}

/// Takes implementations of the kind asked for wherever a layer has one.
class Preferring : public AlgorithmChooser {
 public:
  explicit Preferring(std::string kind) : kind_(std::move(kind)) {}
  size_t choose(const std::string&, std::span<const std::string> candidates,
                const std::function<double(size_t)>&) override {
    const auto is_meant = [&](const std::string& name) { return name.find(kind_) != name.npos; };
    const auto found = std::ranges::find_if(candidates, is_meant);
    return found == candidates.end() ? 0 : static_cast<size_t>(found - candidates.begin());
  }

 private:
  const std::string kind_;
};

class F64File {
 public:
  void add(const std::string& name, const Shape& shape, const std::vector<double>& values) {
    const size_t first = values_.size() * sizeof(double);
    values_.insert(values_.end(), values.begin(), values.end());
    header_[name] = {{"dtype", "F64"},
                     {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                     {"data_offsets", {first, values_.size() * sizeof(double)}}};
  }
  void write(const std::string& path) const {
    const std::string header = header_.dump();
    const uint64_t length = header.size();
    AtomicFile file(path);
    const auto put = [&](const void* data, size_t bytes) {
      file.write({static_cast<const uint8_t*>(data), bytes});
    };
    put(&length, sizeof length);
    put(header.data(), header.size());
    put(values_.data(), values_.size() * sizeof(double));
    file.commit();
  }

 private:
  json header_ = json::object();
  std::vector<double> values_;
};

void add_gradients(const ParameterLayout& layout, const Replica& replica, F64File& file) {
  std::vector<double> values;
  for (const auto& slot : layout.parameters) {
    values.resize(static_cast<size_t>(slot.layout.shape.elements()));
    const auto offset = static_cast<size_t>(slot.offset) * size_of(layout.dtype);
    read_tensor(slot.layout, replica.gradients.data() + offset, std::span(values));
    file.add("gradient:" + slot.name, slot.layout.shape, values);
  }
}

/// Of the whole batch: logits and loss; of a training step gradients too.
void write_values(bool of_training, const std::string& model, const std::string& device,
                  const std::string& from, const std::string& to, const std::string& kind) {
  const Batches batch = batches_of(from);
  const Shape& images = batch.images;
  const ModelSpec spec{.image = {images[1], images[2], images[3]},
                       .classes = kClasses,
                       .batch = images[0],
                       .options = {}};
  Preferring chooser(kind);
  CompileOptions options;
  options.device = device;
  if (device == "ref") options.precision = DType::f64;
  options.threads = kThreads;
  options.chooser = kind.empty() ? nullptr : &chooser;
  find_device(device).expect_team(kThreads);
  CompiledModel compiled(without_dropout(build_model(model, spec)), options);
  const auto program = of_training ? compiled.training(images[0]) : compiled.evaluation(images[0]);
  const ParameterLayout& layout = *program->parameters();
  const Replica replica(layout);
  start_from_file(from, layout, replica);
  const Workspace workspace = compiled.make_workspace(find_device(device));
  find_device(device).set_team(kThreads);
  const Execution execution(program, replica, workspace);
  Step step;
  step.inputs = {batch.pixels.data(), batch.labels.data()};
  execution.run(step);

  F64File file;
  file.add("logits", {images[0], kClasses}, execution.values("logits"));
  file.add("loss", {1}, execution.values("loss"));
  if (of_training) add_gradients(layout, replica, file);
  file.write(to);
  std::string kernels;
  for (const auto& info : program->kernel_infos()) {
    if (info.kind == "conv2d") kernels += info.implementation + ' ';
  }
  fmt::print("{}\n", kernels);
}

/// Of as many steps as the file has batches, one after the other.
void print_losses(const std::string& model, const std::string& from, int64_t batch, double lr) {
  const Batches all = batches_of(from);
  SessionOptions options;
  options.image = {all.images[1], all.images[2], all.images[3]};
  options.classes = kClasses;
  options.batch = batch;
  options.lr = lr;
  options.momentum = 0.9;
  options.weight_decay = 1e-4;
  options.deterministic = true;
  Session session(model, options);
  const SafeTensors file(bytes_of_file(from));
  for (const SessionTensor& tensor : session.tensors()) {
    const SafeTensors::Tensor* const values = file.find(tensor.name);
    if (!values) fail("{} holds no {}", from, tensor.name);
    session.set(tensor.name, file.values(*values));
  }
  const int64_t image = options.image.elements();
  for (int64_t row = 0; row < all.images[0]; row += batch) {
    const auto pixels =
        std::span(all.pixels)
            .subspan(static_cast<size_t>(row * image), static_cast<size_t>(batch * image));
    const auto labels =
        std::span(all.labels).subspan(static_cast<size_t>(row), static_cast<size_t>(batch));
    fmt::print("{:.9g}\n", session.step(pixels, labels));
  }
}

constexpr const char* kUsage =
    "usage: net_step outputs|gradients MODEL DEVICE FROM TO [KIND of convolutions]\n"
    "       net_step losses MODEL FROM BATCH LR\n";

int run(const std::vector<std::string>& words) {
  const bool of_training = words.size() >= 5 && words[0] == "gradients";
  if (of_training || (words.size() >= 5 && words[0] == "outputs")) {
    write_values(of_training, words[1], words[2], words[3], words[4],
                 words.size() > 5 ? words[5] : "");
  } else if (words.size() == 5 && words[0] == "losses") {
    print_losses(words[1], words[2], std::stoll(words[3]), std::stod(words[4]));
  } else {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace crossbow

int main(int argc, char** argv) {
  try {
    return crossbow::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "net_step: {}\n", e.what());
    return 1;
  }
}
