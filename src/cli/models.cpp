// crossbow models
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/results.h"
#include "core/text.h"
#include "data/dataset.h"
#include "graph/cost.h"
#include "models/model.h"

namespace crossbow::cli {
namespace {

constexpr const char* kModelsExamples = R"(Examples:
  crossbow models              all, with their sizes
  crossbow models resnet-32    one, with its recipe
  crossbow models resnet-50:variant=v2
  crossbow models --json
)";

struct ModelsFlags {
  std::string name;
  bool json = false;
};

struct Facts {
  const Model* model;
  std::string name;  // with options
  int64_t parameters;
  double flops;  // of one image's forward pass
};

Facts facts_of(const std::string& name) {
  const Model& model = find_model(name);
  const Graph graph = build_model(name, model.default_spec(/*batch=*/1));
  return {&model, name, parameter_count(graph), flop_count(graph)};
}

Json recipe_json(const Recipe& r) {
  return {{"data", r.data},
          {"epochs", r.epochs},
          {"loss", r.loss},
          {"lr", r.lr},
          {"lr_schedule", r.lr_schedule},
          {"lr_milestones", r.lr_milestones},
          {"lr_gamma", r.lr_gamma},
          {"warmup", r.warmup},
          {"momentum", r.momentum},
          {"weight_decay", r.weight_decay},
          {"pad", r.pad},
          {"mirror", r.mirror}};
}

Json to_json(const Facts& f) {
  const Model& m = *f.model;
  return {{"name", f.name},
          {"summary", m.summary},
          {"parameters", f.parameters},
          {"flops_per_image_forward", f.flops},
          {"image", std::vector<int64_t>(m.default_image.begin(), m.default_image.end())},
          {"classes", m.default_classes},
          {"options", m.options_help},
          {"recipe", recipe_json(m.recipe)}};
}

void print_row(const Facts& f) {
  const Model& m = *f.model;
  put("{:<16} {:>12} {:>10.1f}  {:<14} {:>7}\n", m.name, grouped(f.parameters), f.flops / 1e6,
      m.default_image.str(), m.default_classes);
  put_wrapped(stdout, "  ", m.summary);
}

std::string augmentation_text(const Recipe& r) {
  std::vector<std::string> parts;
  if (data::catalogue_entry(r.data).pictures) {
    parts.emplace_back("random parts of pictures, scaled");
  } else if (r.pad > 0) {
    parts.push_back(fmt::format("crops after padding by {}", r.pad));
  }
  if (r.mirror) parts.emplace_back("mirrored");
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string schedule_text(const Recipe& r) {
  std::string text = r.lr_schedule;
  if (!r.lr_milestones.empty()) {
    text +=
        r.lr_schedule == "step"
            ? fmt::format(", times {} every {} epochs", r.lr_gamma, r.lr_milestones[0])
            : fmt::format(", times {} at epochs {}", r.lr_gamma, fmt::join(r.lr_milestones, ", "));
  }
  if (r.warmup > 0) text += fmt::format(", after {} epochs of warm-up", r.warmup);
  return text;
}

void print_one(const Facts& f) {
  const Model& m = *f.model;
  const Recipe& r = m.recipe;
  put("{}: {}\n", printable(f.name), m.summary);
  put("  parameters    {}\n", grouped(f.parameters));
  put("  forward       {:.4g} MFLOP {}\n", f.flops / 1e6,
      m.default_groups.empty() ? "an image" : "a rating");
  if (m.default_groups.empty()) {
    put("  images        {} in {} classes, unless the data set has others\n", m.default_image.str(),
        m.default_classes);
  } else {
    put("  ratings       by {} users of {} items, unless the data set has others\n",
        grouped(m.default_groups[0]), grouped(m.default_groups[1]));
  }
  if (!m.options_help.empty()) put_wrapped(stdout, "  options       ", m.options_help);
  put("recipe (what `crossbow train --model {}` uses unless told otherwise)\n", printable(f.name));
  put("  data          {}\n  epochs        {}\n", r.data, r.epochs);
  put_wrapped(stdout, "  lr            ", fmt::format("{}, {}", r.lr, schedule_text(r)));
  if (r.loss != Recipe{}.loss) put("  loss          {}\n", r.loss);
  put("  momentum      {}\n  weight decay  {}\n", r.momentum, r.weight_decay);
  put("  augmentation  {}\n", augmentation_text(r));
}

int run(const ModelsFlags& flags) {
  if (!flags.name.empty()) {
    const Facts facts = facts_of(flags.name);
    if (flags.json) {
      print_json(to_json(facts));
    } else {
      print_one(facts);
    }
    return 0;
  }
  Json list = Json::array();
  if (!flags.json) {
    put("{:<16} {:>12} {:>10}  {:<14} {:>7}\n", "name", "parameters", "MFLOP", "image", "classes");
  }
  for (const Model* model : all_models()) {
    const Facts facts = facts_of(model->name);
    if (flags.json) {
      list.push_back(to_json(facts));
    } else {
      print_row(facts);
    }
  }
  if (flags.json) print_json({{"models", list}});
  return 0;
}

}  // namespace

Run add_models(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("models", "list the models, or show one and its recipe");
  const auto flags = std::make_shared<ModelsFlags>();
  app.add_option("model", flags->name, "the model to show")->type_name("NAME");
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.footer(kModelsExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
