// crossbow: one command with a sub-command for each job. Exit codes: 0 success, 1 failure, 2 usage.
#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "core/error.h"
#include "core/nearest.h"
#include "train/config.h"

namespace crossbow::cli {
namespace {

constexpr int kFailure = 1, kUsage = 2;

int complain(int code, std::string_view command, std::string_view sentence) {
  fmt::print(stderr, "{}: {}\n", command, sentence);
  return code;
}

/// What the parser did not understand: a mistyped command or option, most likely.
void refuse_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  std::string_view extra = extras[0];
  std::vector<std::string> names;
  if (extra.substr(0, 2) != "--") {
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(sub->get_name());
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    fail_usage("'{}' is not understood{}", extra, did_you_mean(extra, views));
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  extra = extra.substr(2, extra.find('=') - 2);
  try {
    fail_unknown_option(extra, views);
  } catch (const UsageError& e) {
    fail_usage("--{}", e.what());
  }
}

int run(int argc, char** argv) {
  CLI::App root("Trains neural networks with small batches.", "crossbow");
  root.set_version_flag("--version", "crossbow " CROSSBOW_VERSION);
  root.footer("`crossbow train` alone trains LeNet on handwritten digits.");
  root.allow_extras();
  std::vector<std::pair<CLI::App*, Run>> commands;
  for (const auto add : {add_train, add_eval, add_bench, add_models, add_data, add_graph}) {
    Run command = add(root);
    CLI::App* app = root.get_subcommands([](const CLI::App*) { return true; }).back();
    app->allow_extras();
    commands.emplace_back(app, std::move(command));
  }

  std::string name = "crossbow";
  try {
    root.parse(argc, argv);
    refuse_extras(root);
    for (const auto& [app, command] : commands) {
      if (!app->parsed()) continue;
      name += ' ' + app->get_name();
      refuse_extras(*app);
      return command();
    }
    fmt::print(stderr, "{}", root.help());
    return kUsage;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return root.exit(e);  // --help and --version
    return complain(kUsage, name, e.what());
  } catch (const UsageError& e) {
    return complain(kUsage, name, e.what());
  } catch (const std::bad_alloc&) {
    return complain(kFailure, name, "out of memory: try a smaller --batch");
  } catch (const std::exception& e) {
    return complain(kFailure, name, e.what());
  }
}

}  // namespace
}  // namespace crossbow::cli

int main(int argc, char** argv) {
  return crossbow::cli::run(argc, argv);
}
