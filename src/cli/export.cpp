// crossbow export
#include "cli/command.h"
#include "cli/results.h"
#include "core/error.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"

namespace crossbow::cli {
namespace {

constexpr const char* kExportExamples =
    R"(Writes the weights of a run's model, with what batch norm has measured, under PyTorch's names.

Examples:
  crossbow export runs/lenet-mnist-1 lenet.safetensors
  crossbow export runs/lenet-mnist-1/checkpoint.best lenet.safetensors --json
  crossbow train --model lenet --init lenet.safetensors        starts from them

In Python:
  model.load_state_dict(safetensors.torch.load_file("lenet.safetensors"))
)";

struct ExportArguments {
  std::string run, to;
  bool json = false;
};

int run(const ExportArguments& arguments) {
  const auto& [run, to, json] = arguments;
  if (!to.ends_with(".safetensors")) {
    fail_usage("'{}': weights are written as FILE.safetensors in this version", to);
  }
  const Checkpoint checkpoint = load_checkpoint(run, note);
  std::vector<NamedTensor> tensors;
  int64_t values = 0;
  for (const Checkpoint::StoredTensor& t : checkpoint.tensors) {
    if (t.role != Checkpoint::Role::parameter && t.role != Checkpoint::Role::state) continue;
    tensors.push_back({t.name, {t.shape.begin(), t.shape.end()}, t.read});
    values += t.shape.elements();
  }
  write_safetensors(to, tensors, {{"format", "pt"}, {"model", checkpoint.options.model}});
  if (json) {
    print_json({{"file", to}, {"tensors", tensors.size()}, {"values", values}});
  } else {
    put("wrote {} of {} to {}\n", count(std::ssize(tensors), "tensor"), count(values, "value"),
        printable(to));
  }
  return 0;
}

}  // namespace

Run add_export(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("export", "write a model's weights for other programs");
  const auto arguments = std::make_shared<ExportArguments>();
  app.add_option("RUN", arguments->run, "a run's folder, or a checkpoint")
      ->required()
      ->type_name("PATH");
  app.add_option("FILE", arguments->to, "FILE.safetensors")->required()->type_name("PATH");
  app.add_flag("--json", arguments->json, "put one JSON object on standard output");
  app.footer(kExportExamples);
  return [arguments] { return run(*arguments); };
}

}  // namespace crossbow::cli
