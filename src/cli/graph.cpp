// crossbow graph
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "cli/command.h"
#include "cli/results.h"
#include "graph/dot.h"
#include "graph/source.h"
#include "models/model.h"
#include "passes/passes.h"
#include "plan/compiled_model.h"
#include "train/evaluation.h"
#include "train/notes.h"
#include "train/recipe.h"
#include "train/run_config.h"

namespace crossbow::cli {
namespace {

constexpr const char* kGraphExamples = R"(Examples:
  crossbow graph --model resnet-20
  crossbow graph --model lenet --training --batch 64
  crossbow graph --model resnet-32 --learners 16     what 16 learners would cost
  crossbow graph --model lenet --dot | dot -Tsvg > lenet.svg
)";

struct GraphFlags {
  OptionFlags options;
  bool training = false, dot = false, json = false;
};

struct Memory {
  double parameters, frozen, slots, states, activations, activations_without_reuse;  // MiB
  LearnerMemory learners;
};

/// One, or one a worker if these are unlike.
std::vector<std::unique_ptr<CompiledModel>> compiled(const Graph& forward, const RunConfig& config,
                                                     const TeamConfig& team) {
  std::vector<std::unique_ptr<CompiledModel>> models;
  for (size_t w = 0; w < std::max<size_t>(1, team.workers.size()); ++w) {
    CompileOptions options = config.compile_options(team, nullptr, w);
    if (w > 0) options.parameters = models.front()->parameters();
    models.push_back(std::make_unique<CompiledModel>(forward, options));
    if (team.workers.empty()) continue;
    for (const int64_t rows : node_worker(team.workers[w], *team.async, config.batch).rows) {
      models.back()->training(rows);
    }
  }
  return models;
}

Memory memory_of(const Graph& forward, const RunConfig& config, const TeamConfig& team) {
  const auto own = compiled(forward, config, team);
  std::vector<CompiledModel*> models;
  for (const auto& model : own) models.push_back(model.get());
  CompiledModel& model = *models.front();
  const Program& program = *model.training(config.batch);
  model.evaluation(evaluation_rows(config.batch));  // in the same arena
  const ParameterLayout& layout = *program.parameters();
  const auto flat = static_cast<double>(layout.parameter_elements) * size_of(layout.dtype);
  Memory m;
  m.parameters = mebibytes(flat);
  m.frozen = mebibytes(static_cast<double>(layout.frozen_elements) * size_of(layout.dtype));
  m.slots = mebibytes(static_cast<double>(config.optimizer.slots.size()) * flat);
  m.states = mebibytes(static_cast<double>(layout.state_elements) * size_of(layout.dtype));
  m.activations = mebibytes(static_cast<double>(program.arena_bytes()));
  m.activations_without_reuse = mebibytes(static_cast<double>(program.arena_bytes_without_reuse()));
  m.learners = config.memory(models, team, {.rows = config.batch});
  return m;
}

Json shape_json(const Shape& shape) {
  return std::vector<int64_t>(shape.begin(), shape.end());
}

Json to_json(const Graph& graph, const Memory& m) {
  Json nodes = Json::array();
  for (const Node& node : graph.nodes()) {
    Json inputs = Json::array(), outputs = Json::array();
    for (const Value v : node.inputs)
      inputs.push_back(v ? Json(graph.node(v).name) : Json(nullptr));
    for (const TensorType& t : node.outputs) outputs.push_back(shape_json(t.shape));
    nodes.push_back({{"name", node.name},
                     {"op", std::string(node.op->name)},
                     {"inputs", std::move(inputs)},
                     {"shapes", std::move(outputs)}});
  }
  return {{"nodes", std::move(nodes)},
          {"memory_mb",
           {{"parameters", m.parameters},
            {"frozen", m.frozen},
            {"optimizer", m.slots},
            {"states", m.states},
            {"activations", m.activations},
            {"activations_without_reuse", m.activations_without_reuse},
            {"learners", m.learners.total_mb()}}}};
}

/// Sources are told with the node that reads them first, as its parameters.
void print_nodes(const Graph& graph) {
  constexpr size_t kName = 24;
  put_row(stdout, "node", kName, fmt::format(" {:<24} {:<18} {:>10}", "op", "shape", "parameters"));
  put("  reads\n");
  std::set<int32_t> counted;
  for (const Node& node : graph.nodes()) {
    if (node.op->name == "parameter" || node.op->name == "state") continue;
    int64_t parameters = 0, frozen = 0;
    std::string reads;
    for (const Value v : node.inputs) {
      if (!v) continue;
      const Node& from = graph.node(v);
      if (from.op->name == "state") continue;
      if (from.op->name == "parameter") {
        if (!counted.insert(v.node).second) continue;
        const int64_t elements = from.outputs[0].shape.elements();
        parameters += elements;
        if (from.attrs<ParameterAttributes>().frozen) frozen += elements;
      } else {
        reads += (reads.empty() ? "" : ", ") + from.name;
      }
    }
    const std::string of_them = frozen == 0 ? ""
                                : frozen == parameters
                                    ? " frozen"
                                    : fmt::format(" ({} frozen)", grouped(frozen));
    const std::string count =
        parameters > 0 ? fmt::format(" {:>10}{}", grouped(parameters), of_them) : "";
    put_row(stdout, node.name, kName,
            fmt::format(" {:<24} {:<18}{}", fused_name(node), node.outputs[0].shape.str(), count));
    if (!reads.empty()) put_wrapped(stdout, "  ", reads);
  }
}

void print_memory(const Memory& m, const RunConfig& c) {
  put("\nmemory of one learner training at batch {} in {}, MiB\n", c.batch,
      precision_name(c.options));
  put("  parameters       {:10.2f}\n", m.parameters);
  if (m.frozen > 0) put("  frozen           {:10.2f}   shared by a device's learners\n", m.frozen);
  put("  optimizer state  {:10.2f}\n", m.slots);
  put("  running states   {:10.2f}\n", m.states);
  put("  activations      {:10.2f}   with gradients and scratch; {:.2f} without reuse\n",
      m.activations, m.activations_without_reuse);
  const LearnerMemory& l = m.learners;
  put("\nmemory of {}, MiB\n", count(l.learners, "learner"));
  put("  replicas         {:10.2f}   {} of {:.2f}\n", l.learners * l.replica, l.learners,
      l.replica);
  put("  arenas           {:10.2f}   {} of {:.2f}, shared by turns\n", l.workers * l.arena,
      l.workers, l.arena);
  put("  central model    {:10.2f}   and what is evaluated\n", l.devices * l.central + l.evaluated);
  if (l.frozen > 0) put("  frozen           {:10.2f}\n", l.devices * l.frozen);
  put("  bound programs   {:10.2f}\n", l.bound);
  put("  in all           {:10.2f}\n", l.total_mb());
}

int run(const GraphFlags& flags) {
  const TrainOptions options = flags.options.apply();
  const RunConfig config = resolve(options, find_model(options.model).recipe);
  const Graph forward = config.with_frozen(build_model(config.model, spec_of(options, config)));
  const Graph fused = fuse(forward);
  const Graph shown = flags.training ? training_graph(fused, config.batch) : fused;
  if (flags.dot) {
    put("{}", to_dot(shown, fused_name));
    return 0;
  }
  if (const auto note = precision_note(config)) cli::note(*note);
  const Memory memory = memory_of(forward, config, config.teams.front());
  if (flags.json) {
    print_json(to_json(shown, memory));
  } else {
    print_nodes(shown);
    print_memory(memory, config);
  }
  return 0;
}

}  // namespace

Run add_graph(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("graph", "print a model's graph, shapes and memory plan");
  const auto flags = std::make_shared<GraphFlags>();
  flags->options.add(app, {"model", "data", "image-size", "device", "batch", "learners", "sync",
                           "threads-per-learner", "precision", "loss", "momentum", "freeze"});
  app.add_flag("--training", flags->training, "show the backward part too");
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.add_flag("--dot", flags->dot, "print the graph for Graphviz")->excludes("--json");
  app.footer(kGraphExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
